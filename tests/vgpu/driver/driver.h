// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/driver/memory.h"
#include "tests/vgpu/driver/objects.h"
#include "tests/vgpu/driver/scheduler.h"
#include "tests/vgpu/vgpu_control.h"

#include <cstdio>
#include <mutex>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>

namespace stepfuse::vgpu::driver {

inline constexpr int kDriverVersion = 13000;
inline constexpr int kPtxVersion = 90;   // of a driver for CUDA 13.0
inline constexpr int kCapability = 129;  // above all that NVRTC 13 lists, so that PTX is the natural choice

/// All of the virtual driver's state. One lock guards it.
struct Driver {
  Driver();
  ~Driver();

  std::recursive_mutex mutex;
  bool initialized = false;
  uint64_t generation = 0;  // one more with each vgpu_reset

  // From the environment.
  int devices = 1;
  bool strict = true;
  std::FILE* trace = nullptr;
  bool eager = true;  // the device may begin before anybody waits

  std::unique_ptr<Memory> memory;
  std::vector<std::unique_ptr<DeviceMemory>> device_memory;
  Scheduler scheduler;

  Registry<Context, CUcontext> contexts;
  Registry<Stream, CUstream> streams;
  Registry<Event, CUevent> events;
  Registry<Library, CUlibrary> libraries;
  Registry<Kernel, CUkernel> kernels;
  Registry<Function, CUfunction> functions;
  Registry<Graph, CUgraph> graphs;
  Registry<GraphExec, CUgraphExec> execs;
  std::unordered_map<CUgraphNode, GraphNode*> nodes;
  std::unordered_set<CUcontext> dead_contexts;
  struct Primary {
    std::shared_ptr<Context> context;
    unsigned retained = 0;
  };
  std::vector<Primary> primaries;
  std::vector<std::shared_ptr<Capture>> captures;
  uint64_t next_id = 1;

  VgpuCounters counters{};
  std::unordered_map<std::string, uint64_t> call_counts;
  std::string last_fault;
  std::string details;  // of the call under way, for the trace
  uint64_t allocations_to_pass = 0, allocations_to_fail = 0;
  MachineOptions machine_options;

  /// Key numbers of the call for its line in the trace.
  template <typename Value>
  void note(std::string_view key, const Value& value) {
    if (trace) fmt::format_to(std::back_inserter(details), " {}={}", key, value);
  }
  /// A loud error: what the virtual driver does not know must not pass for working.
  void unknown(const std::string& message);
  void fault(Context& context, CUresult result, const std::string& message);
  bool fail_this_allocation();

  std::shared_ptr<Context> make_context(int device, bool primary);
  void destroy_context(Context& context);
};

Driver& driver();

/// The calling thread's contexts, innermost last; null where none was made current.
std::vector<std::shared_ptr<Context>>& context_stack();
/// The current context. Refuses if there is none, if it was destroyed, or with its sticky error.
std::shared_ptr<Context> current_context();
CUstreamCaptureMode& thread_capture_mode();

void check_device(int device);
/// The stream behind a handle; null is the current context's default stream. With `same_context`, refuses a stream of
/// another context than the current one.
std::shared_ptr<Stream> find_stream(CUstream stream, bool same_context = false);

/// Queues work, or adds it to the capture. `also_after` is a further operation to wait for; `plan` makes the operation
/// the launch of a graph.
std::shared_ptr<Op> submit(Stream& stream, std::shared_ptr<const Work> work, std::shared_ptr<Op> also_after = nullptr,
                           std::shared_ptr<const GraphPlan> plan = nullptr);
/// Executes until the operation is done, and refuses with the sticky error if the context has one then.
void wait_for(const std::shared_ptr<Op>& op, Context& context);
void wait_for_context(Context& context);
/// Which library work of the graph could run at one time with other that touches the same memory; or "".
std::string unordered_conflict(const GraphPlan& plan);

// Capture (capture.cpp).

/// A call that could break a capture under way. Refuses and invalidates what it breaks.
void refuse_in_capture(const char* what);
/// A use of the stream that a capture cannot record.
void refuse_if_capturing(Stream& stream, const char* what);
/// Work on the default stream while a stream that waits for it is capturing.
void refuse_default_stream_in_capture(Stream& stream);
void invalidate(Capture& capture);
void forget_captures(const Context& context);
void discard_graph(Graph& graph);
GraphNode* add_node(Graph& graph, std::shared_ptr<const Work> work, std::vector<GraphNode*> after);

/// Where an operation executes, while it does.
Context*& executing_context();

// Work (work.cpp).
std::shared_ptr<const Work> empty_work(const char* label);
std::shared_ptr<const Work> copy_to_device(uint64_t to, const void* from, size_t bytes, bool stage);
std::shared_ptr<const Work> copy_to_host(void* to, uint64_t from, size_t bytes);
std::shared_ptr<const Work> copy_on_device(uint64_t to, uint64_t from, size_t bytes);
std::shared_ptr<const Work> set_memory(uint64_t to, unsigned value, unsigned element_bytes, size_t count);

// Kernels (launch.cpp).
struct LaunchRequest {
  std::shared_ptr<Kernel> kernel;
  Dim3 grid, block;
  unsigned dynamic_shared = 0;
  bool cooperative = false;
  void** parameters = nullptr;
  void** extra = nullptr;
};
/// The library's code on a device, loaded when it is first asked for.
Module& module_on(Library& library, int device);
std::shared_ptr<Kernel> find_kernel(CUfunction function, const Context& context);
/// Checks the limits and copies the parameters.
std::shared_ptr<const Work> kernel_work(const LaunchRequest& request, const Context& context);
int blocks_per_multiprocessor(const Kernel& kernel, int threads, size_t dynamic_shared);

/// The attribute's value, or nothing if the device does not know it.
std::optional<int> device_attribute(CUdevice_attribute attribute);
const char* result_name(CUresult result);

}  // namespace stepfuse::vgpu::driver
