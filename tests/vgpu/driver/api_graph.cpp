// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0

// Graphs, built by hand or by capture, and their launches.
#include "tests/vgpu/driver/call.h"

#include <algorithm>

namespace stepfuse::vgpu::driver {
namespace {

std::shared_ptr<Graph> get_graph(CUgraph handle) { return driver().graphs.get(handle, "no such graph"); }

GraphNode* get_node(const Graph& graph, CUgraphNode handle) {
  const auto& nodes = driver().nodes;
  const auto found = nodes.find(handle);
  require(found != nodes.end() && found->second->graph == &graph, CUDA_ERROR_INVALID_VALUE, "no node of this graph");
  return found->second;
}

CUgraphNode append(Graph& graph, const CUgraphNode* dependencies, size_t count, std::shared_ptr<const Work> work) {
  require(count == 0 || dependencies, CUDA_ERROR_INVALID_VALUE, "null");
  std::vector<GraphNode*> after;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = get_node(graph, dependencies[i]);
    require(std::find(after.begin(), after.end(), node) == after.end(), CUDA_ERROR_INVALID_VALUE,
            "a dependency is named twice");
    after.push_back(node);
  }
  return add_node(graph, std::move(work), std::move(after))->handle;
}

std::shared_ptr<const Work> kernel_work_of(const CUDA_KERNEL_NODE_PARAMS& parameters, Context& context) {
  require(!parameters.ctx || parameters.ctx == context.handle, CUDA_ERROR_INVALID_CONTEXT, "another context's node");
  LaunchRequest request;
  const CUfunction function = parameters.func ? parameters.func : reinterpret_cast<CUfunction>(parameters.kern);
  request.kernel = find_kernel(function, context);
  request.grid = {parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ};
  request.block = {parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ};
  request.dynamic_shared = parameters.sharedMemBytes;
  request.parameters = parameters.kernelParams;
  request.extra = parameters.extra;
  return kernel_work(request, context);
}

/// A copy of one row between host and device memory.
std::shared_ptr<const Work> copy_work_of(Driver& d, const CUDA_MEMCPY3D& copy) {
  const bool row = copy.Height == 1 && copy.Depth == 1 && copy.srcY == 0 && copy.srcZ == 0 && copy.dstY == 0 &&
                   copy.dstZ == 0 && copy.srcLOD == 0 && copy.dstLOD == 0 && copy.WidthInBytes > 0;
  const bool known = (copy.srcMemoryType == CU_MEMORYTYPE_DEVICE || copy.srcMemoryType == CU_MEMORYTYPE_HOST) &&
                     (copy.dstMemoryType == CU_MEMORYTYPE_DEVICE || copy.dstMemoryType == CU_MEMORYTYPE_HOST) &&
                     !(copy.srcMemoryType == CU_MEMORYTYPE_HOST && copy.dstMemoryType == CU_MEMORYTYPE_HOST);
  if (!row || !known) {
    d.unknown("a memcpy node that is not one row between host and device");
    refuse(CUDA_ERROR_INVALID_VALUE, "unknown kind of copy");
  }
  const size_t bytes = copy.WidthInBytes;
  const auto check = [&](CUdeviceptr address) {
    require(d.memory->find_range(address, bytes), CUDA_ERROR_INVALID_VALUE, "no device memory there");
  };
  if (copy.srcMemoryType == CU_MEMORYTYPE_HOST) {
    check(copy.dstDevice + copy.dstXInBytes);
    return copy_to_device(copy.dstDevice + copy.dstXInBytes,
                          static_cast<const std::byte*>(copy.srcHost) + copy.srcXInBytes, bytes, false);
  }
  check(copy.srcDevice + copy.srcXInBytes);
  if (copy.dstMemoryType == CU_MEMORYTYPE_HOST) {
    return copy_to_host(static_cast<std::byte*>(copy.dstHost) + copy.dstXInBytes, copy.srcDevice + copy.srcXInBytes,
                        bytes);
  }
  check(copy.dstDevice + copy.dstXInBytes);
  return copy_on_device(copy.dstDevice + copy.dstXInBytes, copy.srcDevice + copy.srcXInBytes, bytes);
}

std::shared_ptr<const Work> memset_work_of(Driver& d, const CUDA_MEMSET_NODE_PARAMS& set) {
  const bool element = set.elementSize == 1 || set.elementSize == 2 || set.elementSize == 4;
  require(element && set.width > 0, CUDA_ERROR_INVALID_VALUE, "element size or width");
  if (set.height != 1) {
    d.unknown("a memset node of several rows");
    refuse(CUDA_ERROR_INVALID_VALUE, "unknown kind of memset");
  }
  require(set.dst % set.elementSize == 0, CUDA_ERROR_INVALID_VALUE, "misaligned");
  require(d.memory->find_range(set.dst, set.width * set.elementSize), CUDA_ERROR_INVALID_VALUE,
          "no device memory there");
  return set_memory(set.dst, set.value, set.elementSize, set.width);
}

/// The nodes in their order; refuses a cycle.
std::shared_ptr<const GraphPlan> plan_of(const Graph& graph) {
  std::unordered_map<const GraphNode*, size_t> index;
  for (const auto& node : graph.nodes) index.emplace(node.get(), index.size());
  auto plan = std::make_shared<GraphPlan>();
  std::vector<size_t> open(graph.nodes.size());
  std::vector<std::vector<size_t>> then(graph.nodes.size());
  for (const auto& node : graph.nodes) {
    GraphPlan::Node made{node->handle, node->work, {}};
    for (const GraphNode* before : node->after) {
      made.after.push_back(index.at(before));
      then[index.at(before)].push_back(plan->nodes.size());
    }
    open[plan->nodes.size()] = made.after.size();
    plan->nodes.push_back(std::move(made));
  }
  std::vector<size_t> ready;
  for (size_t i = 0; i < open.size(); ++i) {
    if (open[i] == 0) ready.push_back(i);
  }
  size_t reached = 0;
  for (; reached < ready.size(); ++reached) {
    for (size_t next : then[ready[reached]]) {
      if (--open[next] == 0) ready.push_back(next);
    }
  }
  require(reached == open.size(), CUDA_ERROR_INVALID_VALUE, "the graph has a cycle");
  return plan;
}

CUgraphExec instantiate(Driver& d, Context& context, CUgraph handle, uint64_t flags) {
  constexpr uint64_t kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if (flags & ~kKnown) {
    d.unknown(fmt::format("graph instantiation flags {}", flags));
    refuse(CUDA_ERROR_INVALID_VALUE, "unknown flags");
  }
  auto exec = std::make_shared<GraphExec>();
  exec->context = d.contexts.get(context.handle, "no such context");
  exec->plan = plan_of(*get_graph(handle));
  if (const std::string conflict = unordered_conflict(*exec->plan); !conflict.empty()) d.unknown(conflict);
  d.note("nodes", exec->plan->nodes.size());
  return d.execs.add(exec);
}

std::shared_ptr<GraphExec> get_exec(Driver& d, CUgraphExec handle) {
  auto exec = d.execs.find(handle);
  if (!exec) {
    d.unknown("use of a graph that was destroyed or never instantiated: a real driver need not notice");
    refuse(CUDA_ERROR_INVALID_HANDLE, "no such instantiated graph");
  }
  return exec;
}

void replace_work(GraphExec& exec, size_t index, std::shared_ptr<const Work> work) {
  auto plan = std::make_shared<GraphPlan>(*exec.plan);
  plan->nodes[index].work = std::move(work);
  exec.plan = std::move(plan);
}

void launch(Driver& d, CUgraphExec handle, CUstream stream_handle) {
  auto exec = get_exec(d, handle);
  auto stream = find_stream(stream_handle);
  require(stream->context == exec->context, CUDA_ERROR_INVALID_CONTEXT, "a graph of another context");
  if (stream->capture) {
    d.unknown("a graph launched into a capture");
    refuse_if_capturing(*stream, "cuGraphLaunch");
  }
  refuse_default_stream_in_capture(*stream);
  d.note("nodes", exec->plan->nodes.size());
  exec->last = submit(*stream, nullptr, exec->last, exec->plan);
  ++d.counters.graph_launches;
}

/// What keeps `graph` from taking the place of the instantiated one.
CUgraphExecUpdateResult difference(const GraphPlan& now, const GraphPlan& next, CUgraphNode* node) {
  if (now.nodes.size() != next.nodes.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (size_t i = 0; i < now.nodes.size(); ++i) {
    *node = next.nodes[i].original;
    if (now.nodes[i].work->type != next.nodes[i].work->type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (now.nodes[i].after != next.nodes[i].after) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  }
  *node = nullptr;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

}  // namespace
}  // namespace stepfuse::vgpu::driver

using namespace stepfuse::vgpu::driver;

VGPU_EXPORT(cuGraphCreate)(CUgraph* graph, unsigned flags) {
  return call("cuGraphCreate", [&](Driver& d) {
    require(graph && flags == 0, CUDA_ERROR_INVALID_VALUE, "null, or flags");
    *graph = d.graphs.add(std::make_shared<Graph>());
  });
}

VGPU_EXPORT(cuGraphDestroy)(CUgraph handle) {
  return call("cuGraphDestroy", [&](Driver& d) {
    auto graph = get_graph(handle);
    for (const auto& capture : d.captures) {
      require(capture->graph != graph, CUDA_ERROR_INVALID_VALUE, "the graph is being captured");
    }
    discard_graph(*graph);
  });
}

VGPU_EXPORT(cuGraphAddKernelNode_v2)
(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t dependency_count,
 const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return context_call("cuGraphAddKernelNode_v2", [&](Driver&, Context& context) {
    require(node && parameters, CUDA_ERROR_INVALID_VALUE, "null");
    *node = append(*get_graph(graph), dependencies, dependency_count, kernel_work_of(*parameters, context));
  });
}

VGPU_EXPORT(cuGraphAddMemcpyNode)
(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t dependency_count,
 const CUDA_MEMCPY3D* parameters, CUcontext node_context) {
  return context_call("cuGraphAddMemcpyNode", [&](Driver& d, Context& context) {
    require(node && parameters, CUDA_ERROR_INVALID_VALUE, "null");
    require(node_context == context.handle, CUDA_ERROR_INVALID_CONTEXT, "another context's node");
    *node = append(*get_graph(graph), dependencies, dependency_count, copy_work_of(d, *parameters));
  });
}

VGPU_EXPORT(cuGraphAddMemsetNode)
(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t dependency_count,
 const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext node_context) {
  return context_call("cuGraphAddMemsetNode", [&](Driver& d, Context& context) {
    require(node && parameters, CUDA_ERROR_INVALID_VALUE, "null");
    require(node_context == context.handle, CUDA_ERROR_INVALID_CONTEXT, "another context's node");
    *node = append(*get_graph(graph), dependencies, dependency_count, memset_work_of(d, *parameters));
  });
}

VGPU_EXPORT(cuGraphAddEmptyNode)
(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t dependency_count) {
  return call("cuGraphAddEmptyNode", [&](Driver&) {
    require(node, CUDA_ERROR_INVALID_VALUE, "null");
    *node = append(*get_graph(graph), dependencies, dependency_count, empty_work("empty node"));
  });
}

VGPU_EXPORT(cuGraphAddDependencies)
(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return call("cuGraphAddDependencies", [&](Driver&) {
    require(count == 0 || (from && to), CUDA_ERROR_INVALID_VALUE, "null");
    auto graph = get_graph(handle);
    for (size_t i = 0; i < count; ++i) {
      GraphNode *before = get_node(*graph, from[i]), *after = get_node(*graph, to[i]);
      require(before != after, CUDA_ERROR_INVALID_VALUE, "a node cannot come after itself");
      auto& edges = after->after;
      require(std::find(edges.begin(), edges.end(), before) == edges.end(), CUDA_ERROR_INVALID_VALUE,
              "there is such an edge already");
      edges.push_back(before);
    }
  });
}

VGPU_EXPORT(cuGraphGetNodes)(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return call("cuGraphGetNodes", [&](Driver&) {
    require(count, CUDA_ERROR_INVALID_VALUE, "null");
    auto graph = get_graph(handle);
    const size_t room = *count;
    for (size_t i = 0; nodes && i < room; ++i) nodes[i] = i < graph->nodes.size() ? graph->nodes[i]->handle : nullptr;
    *count = nodes ? std::min(room, graph->nodes.size()) : graph->nodes.size();
  });
}

VGPU_EXPORT(cuGraphNodeGetType)(CUgraphNode node, CUgraphNodeType* type) {
  return call("cuGraphNodeGetType", [&](Driver& d) {
    require(type, CUDA_ERROR_INVALID_VALUE, "null");
    const auto found = d.nodes.find(node);
    require(found != d.nodes.end(), CUDA_ERROR_INVALID_VALUE, "no such node");
    *type = found->second->work->type;
  });
}

VGPU_EXPORT(cuGraphInstantiateWithFlags)(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return context_call("cuGraphInstantiateWithFlags", [&](Driver& d, Context& context) {
    require(exec, CUDA_ERROR_INVALID_VALUE, "null");
    *exec = instantiate(d, context, graph, flags);
  });
}

VGPU_EXPORT(cuGraphInstantiateWithParams)
(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return context_call("cuGraphInstantiateWithParams", [&](Driver& d, Context& context) {
    require(exec && parameters, CUDA_ERROR_INVALID_VALUE, "null");
    parameters->hErrNode_out = nullptr;
    parameters->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
    if (parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) find_stream(parameters->hUploadStream);
    *exec = instantiate(d, context, graph, parameters->flags);
    parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  });
}

VGPU_EXPORT(cuGraphUpload)(CUgraphExec exec, CUstream handle) {
  return context_call("cuGraphUpload", [&](Driver& d, Context&) {
    get_exec(d, exec);
    auto stream = find_stream(handle);
    refuse_if_capturing(*stream, "cuGraphUpload");
    submit(*stream, empty_work("graph upload"));
  });
}

VGPU_EXPORT(cuGraphLaunch)(CUgraphExec exec, CUstream stream) {
  return context_call("cuGraphLaunch", [&](Driver& d, Context&) { launch(d, exec, stream); });
}

/// Launches in flight finish.
VGPU_EXPORT(cuGraphExecDestroy)(CUgraphExec exec) {
  return context_call("cuGraphExecDestroy", [&](Driver& d, Context&) {
    get_exec(d, exec);
    d.execs.remove(exec);
  });
}

VGPU_EXPORT(cuGraphExecKernelNodeSetParams_v2)
(CUgraphExec handle, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return context_call("cuGraphExecKernelNodeSetParams_v2", [&](Driver& d, Context& context) {
    require(parameters, CUDA_ERROR_INVALID_VALUE, "null");
    auto exec = get_exec(d, handle);
    require(d.nodes.contains(node), CUDA_ERROR_INVALID_VALUE, "the node's graph was destroyed");
    const auto& nodes = exec->plan->nodes;
    const auto found =
        std::find_if(nodes.begin(), nodes.end(), [&](const GraphPlan::Node& one) { return one.original == node; });
    require(found != nodes.end() && found->work->kernel, CUDA_ERROR_INVALID_VALUE, "no kernel node of this graph");
    replace_work(*exec, static_cast<size_t>(found - nodes.begin()), kernel_work_of(*parameters, context));
  });
}

VGPU_EXPORT(cuGraphExecUpdate_v2)(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo* result) {
  return context_call("cuGraphExecUpdate_v2", [&](Driver& d, Context&) {
    require(result, CUDA_ERROR_INVALID_VALUE, "null");
    auto exec = get_exec(d, handle);
    auto next = std::make_shared<GraphPlan>(*plan_of(*get_graph(graph)));
    *result = {};
    result->result = difference(*exec->plan, *next, &result->errorNode);
    require(result->result == CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
            "the graph does not fit the instantiated one");
    // Later updates of nodes name those of the graph that was instantiated.
    for (size_t i = 0; i < next->nodes.size(); ++i) next->nodes[i].original = exec->plan->nodes[i].original;
    exec->plan = next;
  });
}
