// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/test_driver.h"

namespace stepfuse::vgpu::test {
namespace {

class Graphs : public DriverTest {
 protected:
  CUgraph make_graph() {
    CUgraph graph = nullptr;
    EXPECT_CUDA(api().cuGraphCreate(&graph, 0));
    return graph;
  }
  CUgraphNode add_memset(CUgraph graph, CUdeviceptr to, unsigned value, std::vector<CUgraphNode> after = {}) {
    const CUDA_MEMSET_NODE_PARAMS parameters{to, 0, value, 4, 1, 1};
    CUgraphNode node = nullptr;
    EXPECT_CUDA(api().cuGraphAddMemsetNode(&node, graph, after.data(), after.size(), &parameters, context_));
    return node;
  }
  CUgraphNode add_copy(CUgraph graph, CUdeviceptr to, CUdeviceptr from, std::vector<CUgraphNode> after = {}) {
    CUDA_MEMCPY3D parameters{};
    parameters.srcMemoryType = parameters.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    parameters.srcDevice = from;
    parameters.dstDevice = to;
    parameters.WidthInBytes = 4;
    parameters.Height = parameters.Depth = 1;
    CUgraphNode node = nullptr;
    EXPECT_CUDA(api().cuGraphAddMemcpyNode(&node, graph, after.data(), after.size(), &parameters, context_));
    return node;
  }
  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_CUDA(api().cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
  }
  void run(CUgraphExec exec) {
    CUstream stream = make_stream();
    ASSERT_CUDA(api().cuGraphLaunch(exec, stream));
    ASSERT_CUDA(api().cuStreamSynchronize(stream));
  }
};

TEST_F(Graphs, AMissingEdgeIsNoticed) {
  for (const bool with_edge : {true, false}) {
    int wrong = 0;
    for (int seed = 0; seed < 20; ++seed) {
      restart_with_seed(seed);
      const CUdeviceptr from = allocate(4), to = allocate(4);
      CUgraph graph = make_graph();
      CUgraphNode write = add_memset(graph, from, 9);
      CUgraphNode copy = add_copy(graph, to, from);
      if (with_edge) {
        ASSERT_CUDA(api().cuGraphAddDependencies(graph, &write, &copy, 1));
      }
      run(instantiate(graph));
      wrong += word_at(to) != 9;
    }
    EXPECT_EQ(wrong > 0, !with_edge) << wrong;
  }
}

TEST_F(Graphs, AnInstantiatedGraphIsACopy) {
  const CUdeviceptr address = allocate(8);
  CUgraph graph = make_graph();
  CUgraphNode first = add_memset(graph, address, 1);
  CUgraphExec exec = instantiate(graph);
  add_memset(graph, address + 4, 2, {first});
  run(exec);
  EXPECT_EQ(word_at(address), 1U);
  EXPECT_EQ(word_at(address + 4), 0xFFFFFFFF);
}

TEST_F(Graphs, KnowTheirNodes) {
  const CUdeviceptr address = allocate(8);
  CUgraph graph = make_graph();
  CUgraphNode first = add_memset(graph, address, 1), second = add_copy(graph, address + 4, address, {first});
  CUgraphNode third = nullptr;
  ASSERT_CUDA(api().cuGraphAddEmptyNode(&third, graph, &second, 1));
  size_t count = 0;
  ASSERT_CUDA(api().cuGraphGetNodes(graph, nullptr, &count));
  ASSERT_EQ(count, 3U);
  std::vector<CUgraphNode> nodes(count);
  ASSERT_CUDA(api().cuGraphGetNodes(graph, nodes.data(), &count));
  EXPECT_EQ(nodes, (std::vector<CUgraphNode>{first, second, third}));
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_HOST;
  ASSERT_CUDA(api().cuGraphNodeGetType(second, &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_MEMCPY);
  ASSERT_CUDA(api().cuGraphDestroy(graph));
  EXPECT_EQ(api().cuGraphNodeGetType(second, &type), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Graphs, RefuseCyclesAndForeignNodes) {
  const CUdeviceptr address = allocate(8);
  CUgraph graph = make_graph(), other = make_graph();
  CUgraphNode first = add_memset(graph, address, 1), second = add_memset(graph, address, 2, {first});
  CUgraphNode foreign = add_memset(other, address, 3);
  EXPECT_EQ(api().cuGraphAddDependencies(graph, &foreign, &second, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api().cuGraphAddDependencies(graph, &first, &second, 1), CUDA_ERROR_INVALID_VALUE);  // twice
  ASSERT_CUDA(api().cuGraphAddDependencies(graph, &second, &first, 1));
  CUgraphExec exec = nullptr;
  EXPECT_EQ(api().cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Graphs, LaunchesOfOneGraphDoNotOverlap) {
  for (int seed = 0; seed < 20; ++seed) {
    restart_with_seed(seed);
    std::vector<int> log;
    CUstream stream = make_stream();
    ASSERT_CUDA(api().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < 3; ++i) ASSERT_CUDA(enqueue(stream, [&log, i] { log.push_back(i); }));
    CUgraph graph = nullptr;
    ASSERT_CUDA(api().cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = instantiate(graph);
    CUstream streams[] = {make_stream(), make_stream(), make_stream()};
    for (CUstream one : streams) ASSERT_CUDA(api().cuGraphLaunch(exec, one));
    ASSERT_CUDA(api().cuGraphExecDestroy(exec));  // launches in flight finish
    ASSERT_CUDA(api().cuCtxSynchronize());
    EXPECT_EQ(log, (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2}));
  }
}

TEST_F(Graphs, ALaunchKeepsItsPlaceInTheStream) {
  for (int seed = 0; seed < 20; ++seed) {
    restart_with_seed(seed);
    const CUdeviceptr address = allocate(8);
    CUgraph graph = make_graph();
    add_copy(graph, address + 4, address);
    CUgraphExec exec = instantiate(graph);
    CUstream stream = make_stream();
    ASSERT_CUDA(api().cuMemsetD32Async(address, 1, 1, stream));
    ASSERT_CUDA(api().cuGraphLaunch(exec, stream));
    ASSERT_CUDA(api().cuMemsetD32Async(address, 2, 1, stream));
    ASSERT_CUDA(api().cuStreamSynchronize(stream));
    EXPECT_EQ(word_at(address + 4), 1U);
  }
}

TEST_F(Graphs, AnUpdateTakesTheParametersOfAnAlikeGraph) {
  const CUdeviceptr address = allocate(8);
  CUgraph graph = make_graph(), alike = make_graph(), longer = make_graph();
  add_memset(graph, address, 1);
  add_memset(alike, address, 2);
  add_memset(longer, address + 4, 3, {add_memset(longer, address, 3)});
  CUgraphExec exec = instantiate(graph);
  CUgraphExecUpdateResultInfo info{};
  ASSERT_CUDA(api().cuGraphExecUpdate(exec, alike, &info));
  run(exec);
  EXPECT_EQ(word_at(address), 2U);
  EXPECT_EQ(api().cuGraphExecUpdate(exec, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
}

TEST_F(Graphs, ADestroyedGraphIsLoud) {
  CUgraph graph = make_graph();
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  ASSERT_CUDA(api().cuGraphInstantiateWithParams(&exec, graph, &parameters));
  EXPECT_EQ(parameters.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
  CUstream stream = make_stream();
  EXPECT_CUDA(api().cuGraphUpload(exec, stream));
  EXPECT_CUDA(api().cuGraphLaunch(exec, stream));
  ASSERT_CUDA(api().cuGraphExecDestroy(exec));
  EXPECT_EQ(counters().unknown, 0U);
  EXPECT_EQ(api().cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(counters().unknown, 1U);
}

TEST_F(Graphs, ALaunchIsOneCall) {
  const CUdeviceptr address = allocate(8);
  CUgraph graph = make_graph();
  add_memset(graph, address, 1);
  CUgraphExec exec = instantiate(graph);
  CUstream stream = make_stream();
  ASSERT_CUDA(api().cuStreamSynchronize(stream));
  api().reset_counters();
  ASSERT_CUDA(api().cuGraphLaunch(exec, stream));
  const VgpuCounters now = counters();
  EXPECT_EQ(now.calls, 1U);
  EXPECT_EQ(now.graph_launches, 1U);
  EXPECT_EQ(now.allocations + now.copies + now.synchronizations + now.kernel_launches + now.memsets, 0U);
  EXPECT_EQ(api().call_count("cuGraphLaunch"), 1U);
}

}  // namespace
}  // namespace stepfuse::vgpu::test
