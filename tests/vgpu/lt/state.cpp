// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/state.h"

#include "tests/vgpu/lt/algorithms.h"
#include "tests/vgpu/lt/exports.h"
#include "tests/vgpu/lt/version.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace stepfuse::vgpu::lt {
namespace {

using Shape = std::array<int64_t, 3>;  // m, n, k

struct Handle {
  CUcontext context;
};

struct State {
  std::mutex mutex;
  std::map<const void*, std::unique_ptr<Handle>> handles;
  bool no_algorithms = false;
  uint64_t heuristics = 0;
  uint64_t with_workspace = 0;
  uint64_t runs_ever = 0;
  std::map<Shape, uint64_t> matmuls, runs;
  std::optional<VgpuLtMatmul> last;
  size_t cache_capacity = 8192;  // of the heuristics' cache, the library's default
};

/// Never destroyed: a caller's static objects may outlive ours.
State& state() {
  static auto* instance = new State;
  return *instance;
}

/// 0 in a wanted extent stands for any.
uint64_t count_of(const std::map<Shape, uint64_t>& counts, const Shape& wanted) {
  uint64_t sum = 0;
  for (const auto& [shape, count] : counts) {
    bool same = true;
    for (size_t i = 0; i < shape.size(); ++i) same = same && (wanted[i] == 0 || wanted[i] == shape[i]);
    if (same) sum += count;
  }
  return sum;
}

}  // namespace

cublasStatus_t check_handle(const char* where, cublasLtHandle_t handle) {
  CUcontext made_in = nullptr;
  {
    const std::lock_guard lock(state().mutex);
    if (const auto found = state().handles.find(handle); found != state().handles.end()) {
      made_in = found->second->context;
    }
  }
  if (made_in == nullptr) {
    return complain(CUBLAS_STATUS_NOT_INITIALIZED, where, fmt::format("{} is no living handle", fmt::ptr(handle)));
  }
  // Not under the lock: the driver calls us with its own one held.
  std::string trouble;
  const CUcontext context = current_context(trouble);
  if (context == nullptr) return complain(CUBLAS_STATUS_NOT_INITIALIZED, where, trouble);
  if (context != made_in) {
    return complain(CUBLAS_STATUS_EXECUTION_FAILED, where, "the handle was made in another context than the current");
  }
  return CUBLAS_STATUS_SUCCESS;
}

size_t live_handles() {
  const std::lock_guard lock(state().mutex);
  return state().handles.size();
}

bool no_algorithms() {
  const std::lock_guard lock(state().mutex);
  return state().no_algorithms;
}

void count_heuristic() {
  const std::lock_guard lock(state().mutex);
  ++state().heuristics;
}

void count_matmul(const VgpuLtMatmul& product) {
  const std::lock_guard lock(state().mutex);
  ++state().matmuls[{product.m, product.n, product.k}];
  if (product.workspace_needed > 0) ++state().with_workspace;
  state().last = product;
}

uint64_t count_run(int64_t m, int64_t n, int64_t k) {
  const std::lock_guard lock(state().mutex);
  ++state().runs[{m, n, k}];
  return state().runs_ever++;
}

}  // namespace stepfuse::vgpu::lt

using namespace stepfuse::vgpu::lt;  // NOLINT(google-build-using-namespace): what follows has C names

namespace stepfuse::cuda {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  const char* where = "cublasLtCreate";
  if (handle == nullptr) return invalid(where, "no place for the handle");
  std::string trouble;
  const CUcontext context = current_context(trouble);
  if (context == nullptr) return complain(CUBLAS_STATUS_NOT_INITIALIZED, where, trouble);
  auto made = std::make_unique<Handle>(Handle{context});
  *handle = reinterpret_cast<cublasLtHandle_t>(made.get());
  const std::lock_guard lock(state().mutex);
  state().handles.emplace(made.get(), std::move(made));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const std::lock_guard lock(state().mutex);
  if (state().handles.erase(handle) == 1) return CUBLAS_STATUS_SUCCESS;
  return invalid("cublasLtDestroy", "{} is no living handle", fmt::ptr(handle));
}

size_t cublasLtGetVersion() { return kVersion; }
size_t cublasLtGetCudartVersion() { return kCudartVersion; }
const char* cublasLtGetStatusName(cublasStatus_t status) { return status_name(status); }
const char* cublasLtGetStatusString(cublasStatus_t status) { return status_text(status); }

cublasStatus_t cublasLtHeuristicsCacheGetCapacity(size_t* capacity) {
  if (capacity == nullptr) return invalid("cublasLtHeuristicsCacheGetCapacity", "no place for the capacity");
  const std::lock_guard lock(state().mutex);
  *capacity = state().cache_capacity;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtHeuristicsCacheSetCapacity(size_t capacity) {
  const std::lock_guard lock(state().mutex);
  state().cache_capacity = capacity;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace stepfuse::cuda

void vgpu_lt_force_no_algorithms(int force) {
  const std::lock_guard lock(state().mutex);
  state().no_algorithms = force != 0;
}

uint64_t vgpu_lt_matmul_count(int64_t m, int64_t n, int64_t k) {
  const std::lock_guard lock(state().mutex);
  return count_of(state().matmuls, {m, n, k});
}

uint64_t vgpu_lt_run_count(int64_t m, int64_t n, int64_t k) {
  const std::lock_guard lock(state().mutex);
  return count_of(state().runs, {m, n, k});
}

uint64_t vgpu_lt_workspace_count() {
  const std::lock_guard lock(state().mutex);
  return state().with_workspace;
}

uint64_t vgpu_lt_heuristic_count() {
  const std::lock_guard lock(state().mutex);
  return state().heuristics;
}

int vgpu_lt_last_matmul(VgpuLtMatmul* product) {
  const std::lock_guard lock(state().mutex);
  if (!state().last) return 0;
  *product = *state().last;
  return 1;
}

void vgpu_lt_set_device_stamp(uint64_t stamp) { set_device_stamp(stamp); }

void vgpu_lt_corrupt_stamp(void* algo) { static_cast<stepfuse::cuda::cublasLtMatmulAlgo_t*>(algo)->data[0] ^= 0x100; }

uint64_t vgpu_lt_complaint_count() { return complaint_count(); }

void vgpu_lt_last_complaint(char* text, size_t bytes) {
  if (bytes == 0) return;
  const std::string last = last_complaint();
  text[last.copy(text, bytes - 1)] = '\0';
}

size_t vgpu_lt_live_objects() { return live_handles() + live_descriptors(); }

void vgpu_lt_reset() {
  forget_complaints();
  set_device_stamp(0);
  const std::lock_guard lock(state().mutex);
  state().no_algorithms = false;
  state().heuristics = 0;
  state().with_workspace = 0;
  state().matmuls.clear();
  state().runs.clear();
  state().last.reset();
}
