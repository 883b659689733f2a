// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams and graphs of the caller: a step on them is the step that our own stream would take.
#include "tests/vgpu/executor/caller.h"
#include "tests/vgpu/executor/rig.h"

#include <gmock/gmock.h>

namespace stepfuse::tests {
namespace {

using testing::HasSubstr;

/// Two groups and two recipes, so that a step has branches.
const std::vector<RigGroup>& groups() {
  static const std::vector<RigGroup> kGroups{
      {"adamw", {}}, {"sgd", {{"momentum", "0.9"}, {"dampening", "0.25"}}}, {"muon", {}}};
  return kGroups;
}

std::vector<RigParameter> parameters(bool matrices) {
  std::vector<RigParameter> list;
  for (uint32_t p = 0; p < (matrices ? 9U : 6U); ++p) {
    RigParameter& parameter = list.emplace_back();
    parameter.group = matrices ? p % 3 : p % 2;
    parameter.spec.shape =
        parameter.group == 2 ? std::vector<int64_t>{24, 40 + 8 * (p / 6)} : std::vector<int64_t>{900 * p + 5};
  }
  return list;
}

class Captures : public CudaExecutor {
 protected:
  void SetUp() override {
    CudaExecutor::SetUp();
    if (IsSkipped()) return;
    caller_ = std::make_unique<Caller>();
    stream_ = caller_->make_stream();
    cpu_ = std::make_unique<Rig>(groups(), parameters(false), RigSettings{ir::Mode::Strict, "cpu", {}, {}});
    cuda_ = std::make_unique<Rig>(groups(), parameters(false), RigSettings{ir::Mode::Strict, "cuda", {}, {}});
  }
  void TearDown() override {
    cuda_.reset();
    cpu_.reset();
    caller_.reset();
    CudaExecutor::TearDown();
  }

  /// Earlier steps must be done.
  cuda::CUgraphExec capture_step() {
    caller_->synchronize(stream_);
    caller_->begin_capture(stream_);
    cuda_->step(1, stream_);
    return caller_->end_capture(stream_);
  }
  void replay(cuda::CUgraphExec graph, int times = 1) {
    caller_->launch(graph, stream_, times);
    cpu_->step(times);
  }
  void set_rate(double lr) {
    for (Rig* rig : {cpu_.get(), cuda_.get()}) rig->set(0, "lr", lr), rig->set(1, "lr", 2 * lr);
  }
  void refresh() { check(cuda_->optimizer().refresh(stream_)); }
  void direct(int times = 1) {
    cuda_->step(times, stream_);
    cpu_->step(times);
  }

  std::unique_ptr<Caller> caller_;
  cuda::CUstream stream_ = nullptr;
  std::unique_ptr<Rig> cpu_, cuda_;
};

TEST_F(Captures, AStepBeforeAnyOther) {
  const cuda::CUgraphExec graph = capture_step();
  EXPECT_EQ(cuda_->values(0).steps, 0) << "nothing has been replayed";
  replay(graph, 3);
  expect_same(*cuda_, *cpu_);
  replay(graph);
  EXPECT_EQ(cuda_->values(0).steps, 4);
  expect_same(*cuda_, *cpu_);
}

/// The rate that a captured step takes is the one that was set last, wherever it was set.
TEST_F(Captures, FollowTheRate) {
  set_rate(0.5);
  direct();
  set_rate(0.25);
  direct();
  const cuda::CUgraphExec graph = capture_step();
  replay(graph);
  expect_same(*cuda_, *cpu_);
  set_rate(0.125);
  refresh();
  replay(graph, 2);
  expect_same(*cuda_, *cpu_);
  direct();
  expect_same(*cuda_, *cpu_);
  set_rate(0.375);
  direct();
  replay(graph);
  expect_same(*cuda_, *cpu_);
}

/// The same when the rate changes just before the capture, and a direct step follows.
TEST_F(Captures, FollowARateSetBeforeTheCapture) {
  direct();
  set_rate(0.25);
  const cuda::CUgraphExec graph = capture_step();
  direct();
  expect_same(*cuda_, *cpu_);
  replay(graph);
  expect_same(*cuda_, *cpu_);
}

TEST_F(Captures, FollowMemoryAndGradients) {
  direct();
  const cuda::CUgraphExec graph = capture_step();
  replay(graph);
  for (Rig* rig : {cpu_.get(), cuda_.get()}) rig->move(1, 0), rig->bind(2, false);
  refresh();
  replay(graph, 2);
  expect_same(*cuda_, *cpu_);
  for (Rig* rig : {cpu_.get(), cuda_.get()}) rig->bind(2);
  refresh();
  replay(graph);
  direct();
  expect_same(*cuda_, *cpu_);
  cuda_->expect_gaps_untouched();
}

TEST_F(Captures, FollowStepCounts) {
  const cuda::CUgraphExec graph = capture_step();
  replay(graph, 2);
  caller_->synchronize(stream_);
  for (Rig* rig : {cpu_.get(), cuda_.get()}) rig->optimizer().set_steps(0, 30), rig->optimizer().set_steps(1, 0);
  refresh();
  replay(graph);
  EXPECT_EQ(cuda_->values(0).steps, 31);
  EXPECT_EQ(cuda_->values(1).steps, 1);
  EXPECT_EQ(cuda_->values(2).steps, 3);
  expect_same(*cuda_, *cpu_);
  direct(2);
  replay(graph);
  expect_same(*cuda_, *cpu_);
}

/// Two steps in one graph, between other work of the caller's.
TEST_F(Captures, HoldSeveralSteps) {
  caller_->begin_capture(stream_);
  cuda_->step(2, stream_);
  const cuda::CUgraphExec graph = caller_->end_capture(stream_);
  caller_->launch(graph, stream_, 2);
  cpu_->step(4);
  expect_same(*cuda_, *cpu_);
}

/// What a change cannot do to a captured step is said; the step can be captured again.
TEST_F(Captures, ThatNoLongerFitSaySo) {
  const cuda::CUgraphExec graph = capture_step();
  replay(graph);
  caller_->synchronize(stream_);
  for (Rig* rig : {cpu_.get(), cuda_.get()}) rig->move(1, 1);
  const Outcome refused = cuda_->optimizer().refresh(stream_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, StatusCode::Failed);
  EXPECT_THAT(refused.error().message, HasSubstr("no longer fits"));
  EXPECT_THAT(refused.error().hint, HasSubstr("capture the step again"));
  caller_->synchronize(stream_);
  replay(capture_step(), 2);
  expect_same(*cuda_, *cpu_);
}

/// A step of ours in between does not hide it.
TEST_F(Captures, ThatADirectStepHasOutdatedSaySo) {
  replay(capture_step());
  caller_->synchronize(stream_);
  for (Rig* rig : {cpu_.get(), cuda_.get()}) rig->move(1, 1);
  direct();
  for (int i = 0; i < 2; ++i) {
    const Outcome refused = cuda_->optimizer().refresh(stream_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, StatusCode::Failed);
  }
  replay(capture_step(), 2);
  refresh();
  replay(capture_step());
  expect_same(*cuda_, *cpu_);
}

/// Without a captured step there is nothing to refresh, and nothing is lost: the first step brings it all.
TEST_F(Captures, NeedNotExistForARefresh) {
  expect_same(*cuda_, *cpu_);  // reads the states: zeros
  refresh();
  cuda_->optimizer().set_steps(0, 12);
  cpu_->optimizer().set_steps(0, 12);
  refresh();
  direct(2);
  EXPECT_EQ(cuda_->values(0).steps, 14);
  expect_same(*cuda_, *cpu_);
}

TEST_F(Captures, AreNotRefreshedWhileTheyAreMade) {
  replay(capture_step());
  caller_->begin_capture(stream_);
  const Outcome refused = cuda_->optimizer().refresh(stream_);
  caller_->end_capture(stream_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, StatusCode::InvalidArgument);
  EXPECT_THAT(refused.error().hint, HasSubstr("between replays"));
  replay(capture_step());
  expect_same(*cuda_, *cpu_);
}

/// Steps on two streams in turn use the same scratch and follow each other.
TEST_F(Captures, TwoStreamsInTurn) {
  const cuda::CUstream other = caller_->make_stream();
  for (int i = 0; i < 6; ++i) {
    if (virtual_driver() != nullptr) virtual_driver()->set_seed(static_cast<uint64_t>(i));
    cuda_->step(1, i % 2 == 0 ? stream_ : other);
    cpu_->step();
  }
  expect_same(*cuda_, *cpu_);
}

/// On CUDA a step needs no context to be current, and leaves none behind.
TEST_F(Captures, NeedNoCurrentContext) {
  cuda::CUcontext current = nullptr;
  caller_->check(caller_->call().cuCtxPopCurrent(&current), "leaving the context");
  direct(2);
  cuda::CUcontext now = current;
  caller_->check(caller_->call().cuCtxGetCurrent(&now), "asking");
  EXPECT_EQ(now, nullptr);
  expect_same(*cuda_, *cpu_);
  caller_->check(caller_->call().cuCtxPushCurrent(current), "coming back");
}

// ---- Branches

class Branches : public CudaExecutor {};

/// Parallel branches change no bit, in any order, whether we capture or the caller does.
TEST_F(Branches, ChangeNoBit) {
  for (const ir::Mode mode : {ir::Mode::Strict, ir::Mode::Default}) {
    SCOPED_TRACE(mode == ir::Mode::Strict ? "strict" : "default");
    Rig forked(groups(), parameters(true), {mode, "cuda", {}, {}});
    Rig straight(groups(), parameters(true), {mode, "cuda", {"branches"}, {}});
    EXPECT_GT(forked.optimizer().plan().branches.size(), 1U);
    EXPECT_EQ(straight.optimizer().plan().branches.size(), 1U);
    Caller caller;
    const cuda::CUstream stream = caller.make_stream();
    caller.begin_capture(stream);
    forked.step(1, stream);
    const cuda::CUgraphExec graph = caller.end_capture(stream);
    for (uint64_t seed = 0; seed < 10; ++seed) {
      if (virtual_driver() != nullptr) virtual_driver()->set_seed(seed);
      if (seed % 2 == 0) {
        forked.step(1, stream);
      } else {
        caller.launch(graph, stream);
      }
      straight.step();
      caller.synchronize(stream);
      expect_same(forked, straight);
    }
  }
}

}  // namespace
}  // namespace stepfuse::tests
