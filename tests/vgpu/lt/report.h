// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the stand-in for cuBLASLt complains. The real library answers a mistake with a bare number, if at all; this one
/// also says on stderr what was wrong, and counts it. What it does not know ends the process, lest a guess pass a test:
/// VGPU_STRICT=0 turns that into CUBLAS_STATUS_NOT_SUPPORTED.

#include "runtime/cuda/api/cublaslt.h"

#include <string>

#include <fmt/format.h>

namespace stepfuse::vgpu::lt {

using namespace stepfuse::cuda;  // NOLINT(google-build-using-namespace): this library is that interface

const char* status_name(cublasStatus_t status);
const char* status_text(cublasStatus_t status);

/// Prints "cuBLASLt stand-in: WHERE: WHAT (STATUS)", counts it, returns the status.
cublasStatus_t complain(cublasStatus_t status, const char* where, const std::string& what);
/// Something that the real library may know and this one does not.
cublasStatus_t unknown(const char* where, const std::string& what);

template <class... Arguments>
cublasStatus_t invalid(const char* where, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return complain(CUBLAS_STATUS_INVALID_VALUE, where, fmt::format(text, std::forward<Arguments>(arguments)...));
}

template <class... Arguments>
cublasStatus_t not_supported(const char* where, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return complain(CUBLAS_STATUS_NOT_SUPPORTED, where, fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// For lt_control.h.
uint64_t complaint_count();
std::string last_complaint();
void forget_complaints();

}  // namespace stepfuse::vgpu::lt
