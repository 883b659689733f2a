// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/driver/driver.h"

#include <chrono>

/// The frame of every exported function: lock, counters, trace, what must hold before the call, refusals as results.
namespace stepfuse::vgpu::driver {

/// Whether the process is a child of one that had used the driver. Says so on stderr.
bool used_before_fork(const char* name);
/// Counts the call, which began at `start`, and writes its line of the trace.
void finish_call(const char* name, CUresult result, const std::string& why,
                 std::chrono::steady_clock::time_point start);

template <typename Body>
CUresult call_unchecked(const char* name, Body body) {
  if (used_before_fork(name)) return CUDA_ERROR_NOT_INITIALIZED;
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  const auto start = std::chrono::steady_clock::now();
  d.details.clear();
  CUresult result = CUDA_SUCCESS;
  std::string why;
  try {
    body(d);
  } catch (const Refusal& refusal) {
    result = refusal.result;
    why = refusal.why;
  }
  finish_call(name, result, why, start);
  return result;
}

/// A function that only needs cuInit: void body(Driver&).
template <typename Body>
CUresult call(const char* name, Body body) {
  return call_unchecked(name, [&](Driver& d) {
    require(d.initialized, CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
    body(d);
  });
}

/// A function that needs a current context: void body(Driver&, Context&).
template <typename Body>
CUresult context_call(const char* name, Body body) {
  return call(name, [&](Driver& d) {
    const auto context = current_context();
    body(d, *context);
  });
}

}  // namespace stepfuse::vgpu::driver

/// All exported functions, so that the compiler compares their definitions with the table.
namespace stepfuse::cuda {
extern "C" {
#define STEPFUSE_CUDA_FUNCTION(name, version, symbol, parameters) \
  __attribute__((visibility("default"))) CUresult symbol parameters;
#include "runtime/cuda/api/driver_functions.def"
#undef STEPFUSE_CUDA_FUNCTION
}
}  // namespace stepfuse::cuda

/// Begins the definition of an exported function.
#define VGPU_EXPORT(symbol) extern "C" __attribute__((visibility("default"))) stepfuse::cuda::CUresult symbol
