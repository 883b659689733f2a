// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The few functions of the virtual driver that the stand-in for cuBLASLt calls, in a libcuda.so.1 of the tests' own:
/// memory that must have been allocated, and one queue that runs when it is told to.

#include "tests/vgpu/vgpu_control.h"

#define STEPFUSE_FAKE_API extern "C" __attribute__((visibility("default")))

/// Aligned to 256 bytes, of exactly that size for vgpu_resolve.
STEPFUSE_FAKE_API void* fake_allocate(size_t bytes);
STEPFUSE_FAKE_API void fake_free(void* memory);
/// Runs what waits, in order; it stays, so that a second call runs it again, as a graph would.
STEPFUSE_FAKE_API void fake_run_all(void);
STEPFUSE_FAKE_API void fake_forget_all(void);
/// The current context; null for none.
STEPFUSE_FAKE_API void fake_set_context(stepfuse::cuda::CUcontext context);
/// What cuCtxGetCurrent and vgpu_enqueue_host answer.
STEPFUSE_FAKE_API void fake_set_results(stepfuse::cuda::CUresult get_current, stepfuse::cuda::CUresult enqueue);
/// The ranges that the last work announced.
STEPFUSE_FAKE_API size_t fake_last_reads(const VgpuRange** ranges);
STEPFUSE_FAKE_API size_t fake_last_writes(const VgpuRange** ranges);
STEPFUSE_FAKE_API stepfuse::cuda::CUresult fake_last_fault(void);
