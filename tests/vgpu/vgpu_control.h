// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the virtual driver exports beside the driver's own names, for tests and for the other stand-ins. Link the
/// target vgpu_cuda, or look the functions up in the open libcuda.so.1 by their names.
///
/// Environment, read when the library is first called:
///   VGPU_DEVICES     number of devices, 1
///   VGPU_MEMORY_MIB  memory of each, 2048
///   VGPU_SEED        the order of whatever has no order, 0
///   VGPU_STRICT      0: what is unknown is an error on stderr; otherwise it also ends the process
///   VGPU_TRACE       a file that gets one line per call of the API

#include "runtime/cuda/api/driver.h"

#define STEPFUSE_VGPU_API extern "C" __attribute__((visibility("default")))

/// Bytes of device memory (or pinned host memory).
struct VgpuRange {
  unsigned long long address;
  size_t bytes;
};

struct VgpuCounters {
  uint64_t calls;            // of the API
  uint64_t kernel_launches;  // asked for, outside of graphs
  uint64_t graph_launches;
  uint64_t kernels_run;  // executed, those of graphs included
  uint64_t host_operations_run;
  uint64_t copies;           // asked for, outside of graphs
  uint64_t pageable_copies;  // of these from or to pageable host memory
  uint64_t copied_bytes;
  uint64_t memsets;
  uint64_t allocations;  // of device memory that succeeded
  uint64_t frees;
  uint64_t host_allocations;  // of pinned memory
  uint64_t live_bytes;        // device memory allocated now, on all devices
  uint64_t peak_bytes;
  uint64_t synchronizations;  // calls that wait, implicitly or by name
  uint64_t libraries_loaded;
  uint64_t faults;       // kernels or host operations that failed
  uint64_t unknown;      // loud errors
  uint64_t nanoseconds;  // spent inside calls of the API, of all threads together
};

/// A stand-in of a library queues work that the host executes: on the stream, or as a graph node if it captures.
/// `run` is called in the stream's order, as often as a graph is launched, with the driver's lock held; it reaches
/// memory through vgpu_resolve and reports a failure through vgpu_fault. `release(data)` is called once, when the work
/// can never run again. The ranges are checked before each run. `name` goes into the trace. On failure the driver has
/// released data already.
STEPFUSE_VGPU_API stepfuse::cuda::CUresult vgpu_enqueue_host(stepfuse::cuda::CUstream stream, const char* name,
                                                             void (*run)(void* data), void* data,
                                                             void (*release)(void* data), const VgpuRange* reads,
                                                             size_t read_count, const VgpuRange* writes,
                                                             size_t write_count);

/// Only while work runs, on the thread that runs it: where bytes of device memory lie on the host. Null if a kernel of
/// this device may not touch them; the context then has its sticky error already and `run` returns at once.
STEPFUSE_VGPU_API void* vgpu_resolve(unsigned long long address, size_t bytes, int write);

/// Only while work runs: a sticky error for the context, with a message for vgpu_last_fault.
STEPFUSE_VGPU_API void vgpu_fault(stepfuse::cuda::CUresult error, const char* message);

/// Another library's call, for the trace and for vgpu_call_count.
STEPFUSE_VGPU_API void vgpu_note_call(const char* name, int result, const char* details);

/// Something that the stand-in does not know: message on stderr, and the end of the process unless
/// VGPU_STRICT=0.
STEPFUSE_VGPU_API void vgpu_unknown(const char* message);

STEPFUSE_VGPU_API void vgpu_counters(VgpuCounters* counters);
STEPFUSE_VGPU_API void vgpu_reset_counters(void);
/// Calls of an exported name, e.g. "cuMemAlloc_v2", since the counters were reset.
STEPFUSE_VGPU_API uint64_t vgpu_call_count(const char* symbol);
STEPFUSE_VGPU_API void vgpu_set_seed(uint64_t seed);
/// Not eager: nothing is executed inside a call that does not wait, so that the time of such calls is the host's alone.
/// Eager is the default: now and then some operations run early, as on a device.
STEPFUSE_VGPU_API void vgpu_set_eager(int eager);
/// For libraries loaded afterwards: MachineOptions::find_races and max_instructions.
STEPFUSE_VGPU_API void vgpu_set_find_races(int find);
STEPFUSE_VGPU_API void vgpu_set_max_instructions(uint64_t instructions);
/// After `skip` more allocations of device memory, the next `count` fail.
STEPFUSE_VGPU_API void vgpu_fail_allocations(uint64_t skip, uint64_t count);
/// What the last sticky error was about, or "".
STEPFUSE_VGPU_API const char* vgpu_last_fault(void);
/// Everything as before cuInit (no other thread may call meanwhile): handles, memory, sticky errors and counters are
/// gone; the environment is read again.
STEPFUSE_VGPU_API void vgpu_reset(void);
/// Bytes of device memory as they are now, without waiting for anything: 0, or 1 if they are not all allocated.
STEPFUSE_VGPU_API int vgpu_peek(unsigned long long address, void* to, size_t bytes);
