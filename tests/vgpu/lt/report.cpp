// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/report.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace stepfuse::vgpu::lt {
namespace {

struct Complaints {
  std::mutex mutex;
  uint64_t count = 0;
  std::string last;
};

Complaints& complaints() {
  static Complaints instance;
  return instance;
}

bool strict() {
  const char* value = std::getenv("VGPU_STRICT");
  return value == nullptr || std::strcmp(value, "0") != 0;
}

struct StatusName {
  cublasStatus_t status;
  const char* name;
  const char* text;
};

constexpr StatusName kStatusNames[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "no error"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "no handle, or no driver to make one"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "out of memory"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "an argument is wrong"},
    {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH", "this device cannot do it"},
    {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR", "device memory could not be reached"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the device did not take the work"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an error inside the library"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "no implementation does this"},
    {CUBLAS_STATUS_LICENSE_ERROR, "CUBLAS_STATUS_LICENSE_ERROR", "no licence"},
};

const StatusName* find(cublasStatus_t status) {
  for (const StatusName& row : kStatusNames) {
    if (row.status == status) return &row;
  }
  return nullptr;
}

}  // namespace

const char* status_name(cublasStatus_t status) {
  const StatusName* row = find(status);
  return row == nullptr ? "unrecognized status" : row->name;
}

const char* status_text(cublasStatus_t status) {
  const StatusName* row = find(status);
  return row == nullptr ? "unrecognized status" : row->text;
}

cublasStatus_t complain(cublasStatus_t status, const char* where, const std::string& what) {
  const std::string line = fmt::format("cuBLASLt stand-in: {}: {} ({})", where, what, status_name(status));
  std::fprintf(stderr, "%s\n", line.c_str());
  const std::lock_guard lock(complaints().mutex);
  ++complaints().count;
  complaints().last = line;
  return status;
}

cublasStatus_t unknown(const char* where, const std::string& what) {
  complain(CUBLAS_STATUS_NOT_SUPPORTED, where,
           what + "; the stand-in does not know this and will not guess (VGPU_STRICT=0 refuses it only)");
  if (strict()) std::abort();
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

uint64_t complaint_count() {
  const std::lock_guard lock(complaints().mutex);
  return complaints().count;
}

std::string last_complaint() {
  const std::lock_guard lock(complaints().mutex);
  return complaints().last;
}

void forget_complaints() {
  const std::lock_guard lock(complaints().mutex);
  complaints().count = 0;
  complaints().last.clear();
}

}  // namespace stepfuse::vgpu::lt
