// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/test_driver.h"

namespace stepfuse::vgpu::test {
namespace {

constexpr int kSeeds = 20;

class Order : public DriverTest {
 protected:
  /// Two streams, one writes what the other reads; how often of 20 seeds the reader was too early.
  int too_early(bool with_event) {
    int wrong = 0;
    for (int seed = 0; seed < kSeeds; ++seed) {
      restart_with_seed(seed);
      CUstream writer = make_stream(), reader = make_stream();
      const CUdeviceptr from = allocate(4), to = allocate(4);
      EXPECT_CUDA(api().cuMemsetD32Async(from, 42, 1, writer));
      if (with_event) {
        CUevent event = make_event();
        EXPECT_CUDA(api().cuEventRecord(event, writer));
        EXPECT_CUDA(api().cuStreamWaitEvent(reader, event, 0));
      }
      EXPECT_CUDA(api().cuMemcpyDtoDAsync(to, from, 4, reader));
      EXPECT_CUDA(api().cuCtxSynchronize());
      wrong += word_at(to) != 42;
    }
    return wrong;
  }
  std::vector<int> log_;
  std::function<void()> logging(int value) {
    return [this, value] { log_.push_back(value); };
  }
};

TEST_F(Order, AMissingEventIsNoticed) { EXPECT_GE(too_early(false), kSeeds / 4); }
TEST_F(Order, WithTheEventAllIsWell) { EXPECT_EQ(too_early(true), 0); }

TEST_F(Order, AStreamKeepsItsOrder) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    restart_with_seed(seed);
    log_.clear();
    CUstream stream = make_stream();
    for (int i = 0; i < 10; ++i) ASSERT_CUDA(enqueue(stream, logging(i)));
    ASSERT_CUDA(api().cuStreamSynchronize(stream));
    EXPECT_EQ(log_, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

TEST_F(Order, ASeedGivesOneOrderAndSeedsDiffer) {
  std::set<std::vector<int>> orders;
  for (int seed = 0; seed < kSeeds; ++seed) {
    std::vector<int> first;
    for (int repeat = 0; repeat < 2; ++repeat) {
      restart_with_seed(seed);
      log_.clear();
      for (int i = 0; i < 6; ++i) {
        CUstream stream = make_stream();
        ASSERT_CUDA(enqueue(stream, logging(i)));
      }
      ASSERT_CUDA(api().cuCtxSynchronize());
      ASSERT_EQ(log_.size(), 6U);
      if (repeat == 0) first = log_;
    }
    EXPECT_EQ(log_, first) << "seed " << seed;
    orders.insert(first);
  }
  EXPECT_GT(orders.size(), 10U);
}

TEST_F(Order, NothingRunsBeforeItMust) {
  int untouched = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    restart_with_seed(seed);
    log_.clear();
    CUstream one = make_stream(), two = make_stream();
    ASSERT_CUDA(enqueue(one, logging(1)));
    ASSERT_CUDA(enqueue(two, logging(2)));
    ASSERT_CUDA(api().cuStreamSynchronize(two));
    untouched += log_ == std::vector<int>{2};
  }
  EXPECT_GT(untouched, kSeeds / 4);
  EXPECT_LT(untouched, kSeeds);
}

TEST_F(Order, TheDefaultStreamWaitsForBlockingStreamsAndTheyForIt) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    restart_with_seed(seed);
    log_.clear();
    CUstream one = make_stream(CU_STREAM_DEFAULT), two = make_stream(CU_STREAM_DEFAULT);
    ASSERT_CUDA(enqueue(one, logging(1)));
    ASSERT_CUDA(enqueue(nullptr, logging(2)));
    ASSERT_CUDA(enqueue(two, logging(3)));
    ASSERT_CUDA(api().cuStreamSynchronize(two));
    EXPECT_EQ(log_, (std::vector<int>{1, 2, 3}));
  }
}

TEST_F(Order, TheDefaultStreamWaitsForDestroyedStreams) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    restart_with_seed(seed);
    log_.clear();
    CUstream stream = make_stream(CU_STREAM_DEFAULT);
    ASSERT_CUDA(enqueue(stream, logging(1)));
    ASSERT_CUDA(api().cuStreamDestroy(stream));
    ASSERT_CUDA(enqueue(nullptr, logging(2)));
    ASSERT_CUDA(api().cuStreamSynchronize(nullptr));
    EXPECT_EQ(log_, (std::vector<int>{1, 2}));
  }
}

TEST_F(Order, ALazyDeviceRunsNothingUnasked) {
  api().set_eager(0);
  CUstream stream = make_stream();
  for (int i = 0; i < 100; ++i) ASSERT_CUDA(enqueue(stream, logging(i)));
  EXPECT_TRUE(log_.empty());
  ASSERT_CUDA(api().cuStreamSynchronize(stream));
  EXPECT_EQ(log_.size(), 100U);
}

TEST_F(Order, ANonBlockingStreamIgnoresTheDefaultStream) {
  int ahead = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    restart_with_seed(seed);
    log_.clear();
    CUstream stream = make_stream();
    ASSERT_CUDA(enqueue(nullptr, logging(1)));
    ASSERT_CUDA(enqueue(stream, logging(2)));
    ASSERT_CUDA(api().cuCtxSynchronize());
    ahead += log_ == std::vector<int>{2, 1};
  }
  EXPECT_GT(ahead, 0);
}

TEST_F(Order, AnEventStandsForItsLastRecord) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    restart_with_seed(seed);
    log_.clear();
    CUstream one = make_stream(), two = make_stream();
    CUevent event = make_event();
    ASSERT_CUDA(enqueue(one, logging(1)));
    ASSERT_CUDA(api().cuEventRecord(event, one));
    ASSERT_CUDA(api().cuStreamWaitEvent(two, event, 0));
    ASSERT_CUDA(enqueue(one, logging(3)));
    ASSERT_CUDA(api().cuEventRecord(event, one));  // the wait above stays with the first
    ASSERT_CUDA(enqueue(two, logging(2)));
    ASSERT_CUDA(api().cuEventSynchronize(event));
    ASSERT_CUDA(api().cuStreamSynchronize(two));
    const auto at = [&](int value) { return std::find(log_.begin(), log_.end(), value) - log_.begin(); };
    EXPECT_LT(at(1), at(2));
    EXPECT_EQ(log_.size(), 3U);
  }
}

TEST_F(Order, QueriesEndWithTheWorkDone) {
  CUstream stream = make_stream();
  CUevent event = make_event();
  ASSERT_CUDA(enqueue(stream, logging(1)));
  ASSERT_CUDA(api().cuEventRecord(event, stream));
  CUresult answer = CUDA_ERROR_NOT_READY;
  for (int i = 0; i < 100 && answer == CUDA_ERROR_NOT_READY; ++i) answer = api().cuEventQuery(event);
  EXPECT_CUDA(answer);
  EXPECT_EQ(log_.size(), 1U);
  for (answer = CUDA_ERROR_NOT_READY; answer == CUDA_ERROR_NOT_READY;) answer = api().cuStreamQuery(stream);
  EXPECT_CUDA(answer);
}

TEST_F(Order, EventsMeasureTime) {
  CUstream stream = make_stream();
  CUevent start = make_event(CU_EVENT_DEFAULT), end = make_event(CU_EVENT_DEFAULT), untimed = make_event();
  float milliseconds = -1;
  ASSERT_CUDA(api().cuEventRecord(start, stream));
  ASSERT_CUDA(enqueue(stream, logging(1)));
  ASSERT_CUDA(api().cuEventRecord(end, stream));
  ASSERT_CUDA(api().cuEventRecord(untimed, stream));
  ASSERT_CUDA(api().cuEventSynchronize(untimed));
  EXPECT_CUDA(api().cuEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(api().cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Order, WorkIsReleasedOnce) {
  static int released = 0;
  CUstream stream = make_stream();
  released = 0;
  const auto release = [](void*) { ++released; };
  const auto nothing = [](void*) {};
  ASSERT_CUDA(api().enqueue_host(stream, "a", nothing, nullptr, release, nullptr, 0, nullptr, 0));
  ASSERT_CUDA(api().cuStreamSynchronize(stream));
  EXPECT_EQ(released, 1);
  EXPECT_EQ(
      api().enqueue_host(reinterpret_cast<CUstream>(0x1234), "b", nothing, nullptr, release, nullptr, 0, nullptr, 0),
      CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(released, 2);
}

/// Products of two branches with one workspace: the scheduler runs one after the other, a device both at one time.
TEST_F(Order, LibraryWorkOfTwoBranchesMayNotShareMemory) {
  const CUdeviceptr shared = allocate(64), other = allocate(64);
  struct Case {
    std::vector<VgpuRange> reads, writes;
    VgpuRange second;
    bool in_order = false;
  };
  const auto unknown_after = [&](const Case& c) {
    CUstream origin = make_stream(), branch = make_stream();
    CUevent fork = make_event(), join = make_event();
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    const uint64_t before = counters().unknown;
    EXPECT_CUDA(api().cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    const CUevent beside = make_event();
    EXPECT_CUDA(api().cuEventRecord(beside, origin));
    EXPECT_CUDA(enqueue(origin, logging(1), c.reads, c.writes));
    EXPECT_CUDA(api().cuEventRecord(fork, origin));
    EXPECT_CUDA(api().cuStreamWaitEvent(branch, c.in_order ? fork : beside, 0));
    EXPECT_CUDA(enqueue(branch, logging(2), {}, {c.second}));
    EXPECT_CUDA(api().cuEventRecord(join, branch));
    EXPECT_CUDA(api().cuStreamWaitEvent(origin, join, 0));
    EXPECT_CUDA(api().cuStreamEndCapture(origin, &graph));
    EXPECT_CUDA(api().cuGraphInstantiateWithFlags(&exec, graph, 0));
    return counters().unknown - before;
  };
  EXPECT_EQ(unknown_after({{}, {{shared, 64}}, {shared + 32, 32}}), 1U);
  EXPECT_EQ(unknown_after({{{shared, 64}}, {{other + 32, 4}}, {shared + 32, 32}}), 1U);
  EXPECT_EQ(unknown_after({{}, {{shared, 32}}, {shared + 32, 32}}), 0U);
  EXPECT_EQ(unknown_after({{}, {{shared, 64}}, {other, 32}}), 0U);
  EXPECT_EQ(unknown_after({{}, {{shared, 64}}, {shared, 64}, true}), 0U);
}

}  // namespace
}  // namespace stepfuse::vgpu::test
