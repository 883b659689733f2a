// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The virtual driver as this library finds it: the libcuda.so.1 that the process has opened, with the entry points of
/// tests/vgpu/vgpu_control.h.

#include "runtime/cuda/api/cublaslt.h"
#include "tests/vgpu/vgpu_control.h"

#include <span>
#include <string>

namespace stepfuse::vgpu::lt {

/// The current context of the calling thread. Without one, null and why.
cuda::CUcontext current_context(std::string& trouble);

/// vgpu_enqueue_host; `release(data)` has been called if it fails.
cuda::CUresult enqueue(cuda::CUstream stream, const char* name, void (*run)(void*), void* data, void (*release)(void*),
                       std::span<const VgpuRange> reads, std::span<const VgpuRange> writes);

/// Only while work runs: vgpu_resolve and vgpu_fault.
void* resolve(uint64_t address, size_t bytes, bool write);
void fault(cuda::CUresult error, const std::string& message);

/// One line of the API's trace.
void note_call(const char* name, cuda::cublasStatus_t status, const std::string& details);

}  // namespace stepfuse::vgpu::lt
