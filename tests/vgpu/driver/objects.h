// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/api/driver.h"
#include "tests/vgpu/ptx/machine.h"
#include "tests/vgpu/vgpu_control.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

/// What stands behind the driver's handles.
namespace stepfuse::vgpu::driver {

using namespace stepfuse::cuda;

/// An API call cannot be done: its result, and why for the trace.
struct Refusal {
  CUresult result;
  std::string why;
};
[[noreturn]] inline void refuse(CUresult result, std::string why) { throw Refusal{result, std::move(why)}; }
inline void require(bool condition, CUresult result, const char* why) {
  if (!condition) refuse(result, why);
}

/// A fault of other work than a kernel, with the error that sticks to the context.
struct WorkFault : std::runtime_error {
  WorkFault(CUresult code, const std::string& what) : std::runtime_error(what), result(code) {}
  CUresult result;
};

struct Op;
struct Capture;
struct Stream;
struct Library;
struct Graph;

struct Context {
  CUcontext handle = nullptr;
  int device = 0;
  uint64_t id = 0;
  bool primary = false;
  bool alive = true;
  CUresult sticky = CUDA_SUCCESS;
  std::shared_ptr<Stream> legacy;            // the default stream
  std::vector<std::shared_ptr<Op>> orphans;  // last operations of destroyed streams that it still waits for
};

/// What an operation or a graph node does. Never changes: whoever wants other parameters makes another one.
struct Work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::string label;
  std::function<void(Context&)> run;     // null: nothing to do
  std::shared_ptr<const void> kernel;    // of a kernel node: which one
  std::vector<VgpuRange> reads, writes;  // of a library's work: what it says it touches
};

struct GraphNode {
  CUgraphNode handle = nullptr;
  Graph* graph = nullptr;
  std::shared_ptr<const Work> work;
  std::vector<GraphNode*> after;
};

struct Graph {
  CUgraph handle = nullptr;
  std::vector<std::unique_ptr<GraphNode>> nodes;
};

/// An instantiated graph as a launch sees it. A parameter update makes another plan, so that launches in flight keep
/// theirs.
struct GraphPlan {
  struct Node {
    CUgraphNode original = nullptr;
    std::shared_ptr<const Work> work;
    std::vector<size_t> after;
  };
  std::vector<Node> nodes;
};

struct GraphExec {
  CUgraphExec handle = nullptr;
  std::shared_ptr<Context> context;
  std::shared_ptr<const GraphPlan> plan;
  std::shared_ptr<Op> last;  // a graph never overlaps itself
};

/// One queued operation.
struct Op {
  std::shared_ptr<Context> context;
  std::shared_ptr<const Work> work;
  std::shared_ptr<const GraphPlan> plan;  // a graph launch: put in place of the operation when the device gets to it
  std::vector<std::shared_ptr<Op>> after;
  std::vector<Op*> then;
  size_t waiting = 0;  // of `after`, not done
  uint64_t bias = 0;   // the higher, the sooner
  uint64_t number = 0;
  bool expanded = false;
  bool done = false;
  uint64_t wanted = 0;  // mark of the last search
  double done_at = 0;   // seconds
};

struct Stream {
  CUstream handle = nullptr;
  std::shared_ptr<Context> context;
  bool blocking = true;  // ordered with the default stream
  bool legacy = false;
  uint64_t bias = 0;
  std::shared_ptr<Op> last;
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode*> heads;  // of the capture: what the next node comes after
};

struct Event {
  CUevent handle = nullptr;
  std::shared_ptr<Context> context;
  bool timing = true;
  std::shared_ptr<Op> op;  // null: never recorded
  std::weak_ptr<Capture> capture;
  bool captured = false;  // the last record was part of a capture
  std::vector<GraphNode*> heads;
  int not_ready = 0;  // answers in a row
};

struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  Stream* origin = nullptr;
  std::vector<Stream*> streams;
  std::shared_ptr<Graph> graph;
  bool invalid = false;
  bool blocking = false;              // one of the streams is ordered with the default stream
  std::vector<CUgraphNode> reported;  // what cuStreamGetCaptureInfo pointed to
};

struct Kernel {
  CUkernel handle = nullptr;
  std::weak_ptr<Library> library;
  KernelInfo info;
  int registers = 0;
  int max_threads = 0;                    // by .maxntid and registers
  std::map<int, int> max_dynamic_shared;  // by device
};

struct Function {
  CUfunction handle = nullptr;
  std::shared_ptr<Kernel> kernel;
  std::shared_ptr<Context> context;
};

struct Library {
  CUlibrary handle = nullptr;
  std::string ptx;
  int ptx_version = 0;           // 90 for 9.0
  bool waits_for_grids = false;  // has a griddepcontrol.wait
  MachineOptions options;
  bool unloaded = false;
  std::map<int, std::unique_ptr<Module>> modules;  // by device, made when first used
  std::map<std::string, std::shared_ptr<Kernel>, std::less<>> kernels;
};

/// Handles are numbers that are no addresses and are never used twice, not even after a reset or for another kind.
inline uint64_t next_handle() {
  static uint64_t last = 0x5f0000000000;
  return last += 64;
}

template <typename Object, typename Handle>
class Registry {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const auto handle = reinterpret_cast<Handle>(next_handle());
    object->handle = handle;
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  std::shared_ptr<Object> find(Handle handle) const {
    auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> get(Handle handle, const char* what) const {
    auto object = find(handle);
    if (!object) refuse(CUDA_ERROR_INVALID_HANDLE, what);
    return object;
  }
  void remove(Handle handle) { objects_.erase(handle); }
  template <typename Predicate>
  void remove_if(Predicate predicate) {
    std::erase_if(objects_, [&](auto& entry) { return predicate(*entry.second); });
  }
  template <typename Visit>
  void each(Visit visit) const {
    for (auto& [handle, object] : objects_) visit(*object);
  }

 private:
  std::unordered_map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace stepfuse::vgpu::driver
