// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// What add_parameter and bind say about strides and about states that the caller owns; memory that comes from hooks.
#include "tests/e2e/optimizer_run.h"

#include <atomic>
#include <map>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::tests {
namespace {

using runtime::MemoryBinding;
using runtime::NewParameter;
using runtime::Optimizer;
using testing::HasSubstr;

const std::vector<int64_t> kShape = {4, 6};
constexpr size_t kElements = 24;

std::string message_of(const Outcome& outcome, StatusCode code = StatusCode::InvalidArgument) {
  if (outcome) return "accepted";
  EXPECT_EQ(outcome.error().code, code) << outcome.error().message;
  EXPECT_FALSE(outcome.error().hint.empty()) << outcome.error().message;
  return outcome.error().message + " | " + outcome.error().hint;
}

Optimizer make_optimizer(const std::string& target = "cpu") {
  runtime::OptimizerSettings settings;
  settings.mode = ir::Mode::Strict;
  settings.target = target;
  settings.threads = 2;
  return std::move(*Optimizer::create(settings));
}

class CallerStates : public testing::Test {
 protected:
  void SetUp() override {
    const uint32_t group = *optimizer_.add_group("adamw", {{"lr", "0.01"}});
    NewParameter parameter{"w", {kShape}, {}, {}, true, {}};
    index_ = *optimizer_.add_parameter(group, parameter);
    own_ = *optimizer_.add_parameter(group, "ours", {kShape});
    ASSERT_TRUE(optimizer_.prepare());
  }

  MemoryBinding all() { return {p_, g_, {{"exp_avg", m_}, {"exp_avg_sq", v_}}}; }
  std::string bind_error(const MemoryBinding& memory) { return message_of(optimizer_.bind(index_, memory)); }

  Optimizer optimizer_ = make_optimizer();
  uint32_t index_ = 0, own_ = 0;
  float p_[kElements] = {}, g_[kElements] = {1, 2, 3}, m_[kElements + 1] = {}, v_[kElements] = {};
};

TEST_F(CallerStates, AllMustComeByKey) {
  EXPECT_THAT(bind_error({p_, g_, {}}), HasSubstr("'w' is bound without memory for its state 'exp_avg'"));
  EXPECT_THAT(bind_error({p_, g_, {{"exp_avg", m_}}}), HasSubstr("without memory for its state 'exp_avg_sq'"));
  EXPECT_THAT(bind_error({p_, g_, {{"exp_avg", m_}, {"exp_avg_sqr", v_}}}),
              HasSubstr("'w' has no state 'exp_avg_sqr' | did you mean 'exp_avg_sq'?"));
  EXPECT_THAT(bind_error({p_, g_, {{"exp_avg", m_}, {"exp_avg_sq", v_}, {"exp_avg", v_}}}),
              HasSubstr("state 'exp_avg' is given twice"));
  EXPECT_THAT(bind_error({p_, g_, {{"exp_avg", nullptr}, {"exp_avg_sq", v_}}}),
              HasSubstr("state 'exp_avg' of 'w' is bound to a null pointer"));
  EXPECT_THAT(bind_error({p_, g_, {{"exp_avg", reinterpret_cast<char*>(m_) + 2}, {"exp_avg_sq", v_}}}),
              HasSubstr("the memory of state 'exp_avg' of 'w' is not aligned"));
  EXPECT_THAT(bind_error({p_, g_, {{"exp_avg", m_}, {"exp_avg_sq", m_ + 1}}}),
              HasSubstr("state 'exp_avg_sq' of 'w' overlaps state 'exp_avg' of 'w'"));
  EXPECT_THAT(bind_error({p_, g_, {{"exp_avg", p_}, {"exp_avg_sq", v_}}}),
              HasSubstr("state 'exp_avg' of 'w' overlaps parameter 'w'"));
  EXPECT_THAT(message_of(optimizer_.bind(own_, {p_, g_, {{"exp_avg", m_}, {"exp_avg_sq", v_}}})),
              HasSubstr("'ours' is bound with states, which the optimizer owns"));
  EXPECT_EQ(bind_error(all()), "accepted");
  EXPECT_EQ(optimizer_.states(index_)->at(0).data, m_);
}

TEST_F(CallerStates, UnboundStatesHaveNoMemory) {
  EXPECT_EQ(optimizer_.states(index_)->at(0).data, nullptr);
  EXPECT_NE(optimizer_.states(own_)->at(0).data, nullptr);
}

TEST_F(CallerStates, FailedRebindingLeavesTheEarlierOne) {
  ASSERT_EQ(bind_error(all()), "accepted");
  float other[kElements] = {};
  const std::string error = bind_error({other, g_, {{"exp_avg", other + 1}, {"exp_avg_sq", v_}}});
  EXPECT_THAT(error, HasSubstr("state 'exp_avg' of 'w' overlaps parameter 'w'"));
  ASSERT_TRUE(optimizer_.step());
  EXPECT_NE(p_[0], 0);
  EXPECT_NE(m_[0], 0);
  EXPECT_EQ(other[0], 0);
  // Nothing of the refused memory is still taken.
  ASSERT_TRUE(optimizer_.bind(own_, other, nullptr));
}

TEST_F(CallerStates, WhatTheMemoryHeldBeforeTheFirstStepDoesNotCount) {
  for (size_t i = 0; i < kElements; ++i) m_[i] = v_[i] = 1e6f;
  float q[kElements] = {};
  ASSERT_EQ(bind_error(all()), "accepted");
  std::vector<float> gradient(g_, g_ + kElements);
  ASSERT_TRUE(optimizer_.bind(own_, q, gradient.data()));
  ASSERT_TRUE(optimizer_.step());
  ASSERT_TRUE(optimizer_.step());
  EXPECT_EQ(std::memcmp(p_, q, sizeof q), 0);
  const auto states = *optimizer_.states(own_);
  EXPECT_EQ(std::memcmp(m_, states[0].data, sizeof q), 0);
  EXPECT_EQ(std::memcmp(v_, states[1].data, sizeof q), 0);
}

TEST_F(CallerStates, StatesThatAreSaidToBeThereCount) {
  for (float& m : m_) m = 100;
  ASSERT_EQ(bind_error(all()), "accepted");
  optimizer_.set_steps(index_, 1);
  ASSERT_TRUE(optimizer_.step());
  EXPECT_FLOAT_EQ(m_[5], 90) << "lerp(100, 0, 0.1)";
  optimizer_.set_steps(index_, 0);
  ASSERT_TRUE(optimizer_.step());
  EXPECT_EQ(m_[5], 0) << "absent again";
}

TEST(Strides, ErrorsOfAddParameter) {
  Optimizer optimizer = make_optimizer();
  const uint32_t adamw = *optimizer.add_group("adamw", {});
  const auto error = [&](NewParameter parameter, StatusCode code = StatusCode::InvalidArgument) {
    parameter.name = "w";
    parameter.spec.shape = {4, 6};
    return message_of(optimizer.add_parameter(adamw, parameter).map([](uint32_t) {}), code);
  };
  EXPECT_THAT(error({.name = {}, .spec = {}, .param_strides = {6, -1}, .grad_strides = {}, .state_strides = {}}),
              HasSubstr("parameter 'w': the stride of dimension 1 is -1"));
  EXPECT_THAT(error({.name = {}, .spec = {}, .param_strides = {}, .grad_strides = {0, 1}, .state_strides = {}}),
              HasSubstr("the gradient of 'w': the stride of dimension 0 is 0"));
  EXPECT_THAT(error({.name = {}, .spec = {}, .param_strides = {}, .grad_strides = {1}, .state_strides = {}}),
              HasSubstr("the gradient of 'w': 1 strides"));
  EXPECT_THAT(
      error({.name = {}, .spec = {}, .param_strides = {}, .grad_strides = {}, .state_strides = {{"exp_av", {6, 1}}}}),
      HasSubstr("no state 'exp_av' | did you mean 'exp_avg'?"));
  EXPECT_THAT(
      error({.name = {}, .spec = {}, .param_strides = {}, .grad_strides = {}, .state_strides = {{"exp_avg", {5, 1}}}}),
      HasSubstr("state 'exp_avg' of 'w': elements of shape [4, 6] with strides [5, 1] may share memory"));
  NewParameter four{"w", {{2, 3, 4, 5}}, {1, 2, 6, 24}, {}, false, {}};
  EXPECT_THAT(message_of(optimizer.add_parameter(adamw, four).map([](uint32_t) {}), StatusCode::Unsupported),
              HasSubstr("parameter 'w': rule adamw: its tensors of shape [2, 3, 4, 5] need 4 strides"));
  EXPECT_TRUE(optimizer.add_parameter(adamw, "w", {{4, 6}})) << "what was refused left nothing behind";
}

TEST(Strides, OverlapOfStridedMemoryNamesBoth) {
  Optimizer optimizer = make_optimizer();
  const uint32_t sgd = *optimizer.add_group("sgd", {});
  ASSERT_TRUE(optimizer.add_parameter(sgd, NewParameter{"even", {{4}}, {2}, {}, false, {}}));
  ASSERT_TRUE(optimizer.add_parameter(sgd, NewParameter{"odd", {{4}}, {2}, {}, false, {}}));
  ASSERT_TRUE(optimizer.prepare());
  float both[9] = {};
  ASSERT_TRUE(optimizer.bind(0, both, nullptr));
  EXPECT_THAT(message_of(optimizer.bind(1, both + 2, nullptr)),
              HasSubstr("parameter 'odd' overlaps parameter 'even' in memory"));
  EXPECT_TRUE(optimizer.bind(1, both + 1, nullptr));
}

/// Counts what is allocated and fails from the `fail_at`-th call on; all functions are safe to call from any thread.
struct CountingAllocator {
  runtime::Allocator hooks() { return {&allocate, &release, this}; }

  static void* allocate(void* user, size_t bytes, size_t alignment) {
    auto& self = *static_cast<CountingAllocator*>(user);
    const std::lock_guard lock(self.mutex);
    if (self.calls++ == self.fail_at) return nullptr;
    void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    std::memset(memory, 0xff, bytes);
    self.live[memory] = bytes;
    return memory;
  }

  static void release(void* user, void* memory, size_t bytes) {
    auto& self = *static_cast<CountingAllocator*>(user);
    const std::lock_guard lock(self.mutex);
    EXPECT_EQ(self.live.at(memory), bytes) << "released with another size";
    self.live.erase(memory);
    std::free(memory);
  }

  std::mutex mutex;
  std::map<void*, size_t> live;
  int calls = 0;
  int fail_at = -1;
};

Result<RunResult> run_with(CountingAllocator& allocator, std::vector<float>& p, const std::vector<float>& g) {
  runtime::Context::Options options;
  options.allocator = allocator.hooks();
  runtime::OptimizerSettings settings;
  settings.mode = ir::Mode::Strict;
  settings.threads = 2;
  STEPFUSE_ASSIGN(settings.context, runtime::Context::create(options));
  STEPFUSE_ASSIGN(Optimizer optimizer, Optimizer::create(settings));
  STEPFUSE_ASSIGN(const uint32_t group, optimizer.add_group("muon", {}));
  STEPFUSE_TRY(optimizer.add_parameter(group, "w", {{16, 24}}).map([](uint32_t) {}));
  STEPFUSE_TRY(optimizer.prepare());
  STEPFUSE_TRY(optimizer.bind(0, p.data(), g.data()));
  STEPFUSE_TRY(optimizer.step());
  RunResult result;
  result.param.resize(p.size() * sizeof(float));
  std::memcpy(result.param.data(), p.data(), result.param.size());
  return result;
}

TEST(AllocatorHooks, StatesAndWorkspaceComeFromThemAndGoBack) {
  const Bytes grad = random_tensor(ir::DType::F32, 16 * 24, 3);
  std::vector<float> g(16 * 24);
  std::memcpy(g.data(), grad.data(), grad.size());
  std::vector<float> p(g.size(), 1);
  CountingAllocator counting;
  const auto result = run_with(counting, p, g);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(counting.live.empty());
  EXPECT_GE(counting.calls, 3) << "states, workspace, sums, scratch of products";
  std::vector<float> q(g.size(), 1);
  const Bytes ones = [&] {
    Bytes bytes(q.size() * sizeof(float));
    std::memcpy(bytes.data(), q.data(), bytes.size());
    return bytes;
  }();
  const auto plain = run_rule("muon", {}, {{16, 24}}, ones, grad, {});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->param, result->param) << "memory that is not zero at first changes nothing";

  for (int k = 0; k < counting.calls; ++k) {
    CountingAllocator failing;
    failing.fail_at = k;
    const auto failed = run_with(failing, p, g);
    ASSERT_FALSE(failed) << "call " << k;
    EXPECT_EQ(failed.error().code, StatusCode::Environment);
    EXPECT_THAT(failed.error().message, HasSubstr("cannot allocate "));
    EXPECT_FALSE(failed.error().hint.empty());
    EXPECT_TRUE(failing.live.empty()) << "call " << k;
  }
}

}  // namespace
}  // namespace stepfuse::tests
