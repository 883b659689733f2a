// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/test_driver.h"

#include <algorithm>
#include <thread>

// Expected results are those of the driver API's reference: cuStreamBeginCapture, cuStreamEndCapture,
// cuStreamWaitEvent, cuThreadExchangeStreamCaptureMode and the comments of the results CUDA_ERROR_STREAM_CAPTURE_*.
namespace stepfuse::vgpu::test {
namespace {

class Capture : public DriverTest {
 protected:
  void begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_CUDA(api().cuStreamBeginCapture(stream, mode));
  }
  CUgraph end(CUstream stream) {
    CUgraph graph = nullptr;
    EXPECT_CUDA(api().cuStreamEndCapture(stream, &graph));
    return graph;
  }
  CUresult end_result(CUstream stream) {
    CUgraph graph = nullptr;
    const CUresult result = api().cuStreamEndCapture(stream, &graph);
    EXPECT_EQ(result == CUDA_SUCCESS, graph != nullptr);
    return result;
  }
  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_CUDA(api().cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
  }
  CUstreamCaptureStatus status(CUstream stream) {
    CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_CUDA(api().cuStreamIsCapturing(stream, &now));
    return now;
  }
  void fork(CUstream from, CUstream to) {
    CUevent event = make_event();
    ASSERT_CUDA(api().cuEventRecord(event, from));
    ASSERT_CUDA(api().cuStreamWaitEvent(to, event, 0));
  }
  std::function<void()> logging(int value) {
    return [this, value] { log_.push_back(value); };
  }
  std::vector<int> log_;
};

TEST_F(Capture, RecordsInsteadOfRunning) {
  CUstream stream = make_stream();
  const CUdeviceptr address = allocate(4);
  begin(stream);
  EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_CUDA(api().cuMemsetD32Async(address, 3, 1, stream));
  CUgraph graph = end(stream);
  EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  ASSERT_CUDA(api().cuCtxSynchronize());
  EXPECT_EQ(word_at(address), 0xFFFFFFFF);
  CUgraphExec exec = instantiate(graph);
  ASSERT_CUDA(api().cuGraphDestroy(graph));
  for (int i = 0; i < 2; ++i) {
    ASSERT_CUDA(api().cuMemsetD32Async(address, 0, 1, stream));
    ASSERT_CUDA(api().cuGraphLaunch(exec, stream));
    ASSERT_CUDA(api().cuStreamSynchronize(stream));
    EXPECT_EQ(word_at(address), 3U);
  }
}

TEST_F(Capture, ForksAndJoinsByEvents) {
  std::set<std::vector<int>> orders;
  for (int seed = 0; seed < 20; ++seed) {
    restart_with_seed(seed);
    log_.clear();
    CUstream one = make_stream(), two = make_stream();
    begin(one);
    ASSERT_CUDA(enqueue(one, logging(1)));
    fork(one, two);
    EXPECT_EQ(status(two), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ASSERT_CUDA(enqueue(one, logging(2)));
    ASSERT_CUDA(enqueue(two, logging(3)));
    fork(two, one);
    ASSERT_CUDA(enqueue(one, logging(4)));
    CUgraphExec exec = instantiate(end(one));
    EXPECT_EQ(status(two), CU_STREAM_CAPTURE_STATUS_NONE);
    ASSERT_CUDA(api().cuGraphLaunch(exec, one));
    ASSERT_CUDA(api().cuStreamSynchronize(one));
    ASSERT_EQ(log_.size(), 4U);
    EXPECT_EQ(log_.front(), 1);
    EXPECT_EQ(log_.back(), 4);
    orders.insert(log_);
  }
  EXPECT_EQ(orders.size(), 2U);  // both orders of the branches were seen
}

TEST_F(Capture, AForkMustBeJoined) {
  CUstream one = make_stream(), two = make_stream();
  begin(one);
  fork(one, two);
  ASSERT_CUDA(enqueue(two, logging(1)));
  EXPECT_EQ(end_result(one), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(status(two), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(Capture, EndsOnTheStreamAndThreadThatBegan) {
  CUstream one = make_stream(), two = make_stream();
  begin(one);
  fork(one, two);
  EXPECT_EQ(end_result(two), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(end_result(one), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end_result(one), CUDA_ERROR_ILLEGAL_STATE);

  const auto end_elsewhere = [&] {
    CUresult result = CUDA_SUCCESS;
    std::thread([&] {
      ASSERT_CUDA(api().cuCtxSetCurrent(context_));
      result = end_result(one);
    }).join();
    return result;
  };
  begin(one);
  EXPECT_EQ(end_elsewhere(), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  end(one);
  begin(one, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(end_elsewhere(), CUDA_SUCCESS);
}

TEST_F(Capture, WaitingForItsStreamBreaksIt) {
  CUstream stream = make_stream();
  for (const bool query : {false, true}) {
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_EQ(query ? api().cuStreamQuery(stream) : api().cuStreamSynchronize(stream),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(enqueue(stream, [] {}), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(end_result(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
}

struct UnsafeCall {
  const char* name;
  std::function<CUresult()> call;
};

TEST_F(Capture, UnsafeCallsAreForbiddenByMode) {
  CUstream stream = make_stream(), other = make_stream();
  CUevent event = make_event();
  CUdeviceptr address = allocate(4);
  void* pinned = nullptr;
  uint32_t word = 0;
  CUlibrary library = nullptr;
  const UnsafeCall calls[] = {
      {"cuMemAlloc", [&] { return api().cuMemAlloc(&address, 4); }},
      {"cuMemHostAlloc", [&] { return api().cuMemHostAlloc(&pinned, 4, 0); }},
      {"cuCtxSynchronize", [&] { return api().cuCtxSynchronize(); }},
      {"cuEventQuery", [&] { return api().cuEventQuery(event); }},
      {"cuStreamSynchronize", [&] { return api().cuStreamSynchronize(other); }},
      {"cuMemcpyDtoH", [&] { return api().cuMemcpyDtoH(&word, address, 4); }},
  };
  for (const UnsafeCall& unsafe : calls) {
    for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
      begin(stream, mode);
      EXPECT_EQ(unsafe.call(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) << unsafe.name;
      EXPECT_EQ(end_result(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) << unsafe.name;
    }
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_CUDA(unsafe.call()) << unsafe.name;
    EXPECT_CUDA(end_result(stream)) << unsafe.name;
  }
  begin(stream);
  EXPECT_EQ(api().cuLibraryLoadData(&library, "", nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST_F(Capture, AnotherThreadsUnsafeCallsBreakAGlobalCaptureOnly) {
  CUstream stream = make_stream();
  const auto allocate_elsewhere = [&](CUstreamCaptureMode mode) {
    CUresult result = CUDA_SUCCESS;
    std::thread([&] {
      CUdeviceptr address = 0;
      ASSERT_CUDA(api().cuThreadExchangeStreamCaptureMode(&mode));
      EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);  // what a thread begins with
      ASSERT_CUDA(api().cuCtxSetCurrent(context_));
      result = api().cuMemAlloc(&address, 4);
    }).join();
    return result;
  };
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  EXPECT_EQ(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end_result(stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  end(stream);
}

TEST_F(Capture, AThreadMayRelaxItself) {
  CUstream stream = make_stream();
  begin(stream);
  auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_CUDA(api().cuThreadExchangeStreamCaptureMode(&mode));
  allocate(4);
  ASSERT_CUDA(api().cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  end(stream);
}

TEST_F(Capture, TheDefaultStreamIsOutOfBounds) {
  const CUdeviceptr address = allocate(4);
  EXPECT_EQ(api().cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUstream blocking = make_stream(CU_STREAM_DEFAULT), free = make_stream();
  begin(blocking);
  EXPECT_EQ(api().cuMemsetD32Async(address, 1, 1, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(end_result(blocking), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(free);
  EXPECT_CUDA(api().cuMemsetD32Async(address, 1, 1, nullptr));
  end(free);
}

TEST_F(Capture, EventsStayOnTheirSide) {
  CUstream one = make_stream(), two = make_stream();
  CUevent before = make_event(), inside = make_event();
  ASSERT_CUDA(api().cuEventRecord(before, two));
  begin(one);
  EXPECT_EQ(api().cuStreamWaitEvent(one, before, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(end_result(one), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  begin(one);
  ASSERT_CUDA(api().cuEventRecord(inside, one));
  EXPECT_EQ(api().cuEventQuery(inside), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(end_result(one), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  begin(one);
  ASSERT_CUDA(api().cuEventRecord(inside, one));
  end(one);
  EXPECT_EQ(api().cuStreamWaitEvent(two, inside, 0), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_EQ(api().cuEventSynchronize(inside), CUDA_ERROR_CAPTURED_EVENT);
}

TEST_F(Capture, TwoCapturesCannotMeet) {
  CUstream one = make_stream(), two = make_stream();
  CUevent event = make_event();
  begin(one);
  begin(two);
  ASSERT_CUDA(api().cuEventRecord(event, one));
  EXPECT_EQ(api().cuStreamWaitEvent(two, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  EXPECT_EQ(end_result(one), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end_result(two), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, InfoNamesTheCaptureAndItsHeads) {
  CUstream stream = make_stream();
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  uint64_t first = 0, second = 0;
  ASSERT_CUDA(api().cuStreamGetCaptureInfo(stream, &state, &first, nullptr, nullptr, nullptr));
  EXPECT_EQ(state, CU_STREAM_CAPTURE_STATUS_NONE);
  begin(stream);
  ASSERT_CUDA(enqueue(stream, [] {}));
  CUgraph graph = nullptr;
  const CUgraphNode* heads = nullptr;
  size_t count = 0;
  ASSERT_CUDA(api().cuStreamGetCaptureInfo(stream, &state, &first, &graph, &heads, &count));
  EXPECT_EQ(state, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_EQ(count, 1U);
  CUgraphNode node = nullptr;
  size_t nodes = 1;
  ASSERT_CUDA(api().cuGraphGetNodes(graph, &node, &nodes));
  EXPECT_EQ(heads[0], node);
  EXPECT_EQ(end(stream), graph);
  begin(stream);
  ASSERT_CUDA(api().cuStreamGetCaptureInfo(stream, &state, &second, nullptr, nullptr, nullptr));
  EXPECT_NE(first, second);
  end(stream);
}

TEST_F(Capture, PageableSourcesOfAGraphAreReadWhenItRuns) {
  CUstream stream = make_stream();
  const CUdeviceptr address = allocate(4);
  uint32_t source = 1;
  begin(stream);
  ASSERT_CUDA(api().cuMemcpyHtoDAsync(address, &source, 4, stream));
  CUgraphExec exec = instantiate(end(stream));
  source = 2;
  ASSERT_CUDA(api().cuGraphLaunch(exec, stream));
  ASSERT_CUDA(api().cuStreamSynchronize(stream));
  EXPECT_EQ(word_at(address), 2U);
}

}  // namespace
}  // namespace stepfuse::vgpu::test
