// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What stepfuse.hpp adds to the C interface: contexts with callbacks, caller-owned states, checkpoints, exceptions.
#include "stepfuse/stepfuse.hpp"

#include <cstdlib>
#include <utility>

#include <gtest/gtest.h>

namespace stepfuse {
namespace {

constexpr double kFirstStep = 1 - 0.1 * 0.01 - 0.1;  // AdamW on 1 with lr 0.1, whatever the gradient

struct Small {
  Optimizer optimizer;
  GroupId group;
  ParameterId id;
  std::vector<float> values = std::vector<float>(6, 1), gradient = std::vector<float>(6, 0.5F);

  explicit Small(Optimizer made) : optimizer(std::move(made)) {
    group = optimizer.add_group("adamw", {{"lr", "0.1"}});
    id = optimizer.add_parameter(group, "w", {2, 3});
  }
  void prepare() {
    optimizer.prepare();
    optimizer.bind(id, values.data(), gradient.data());
  }
};

TEST(CppApiContext, IsSharedAndOutlivedByItsOptimizers) {
  std::vector<std::string> said;
  Optimizer optimizer = [&] {
    ContextOptions options;
    options.settings = {{"log", "info"}};
    options.log = [&](Severity level, const std::string& message) {
      EXPECT_EQ(level, Severity::Info);
      said.push_back(message);
    };
    const Context context(options);
    EXPECT_GE(context.metrics().compiled, 0);
    return Optimizer(context);
  }();
  Small run(std::move(optimizer));
  run.prepare();
  run.optimizer.step();
  EXPECT_NEAR(run.values[0], kFirstStep, 1e-6);
  ASSERT_FALSE(said.empty());
  EXPECT_NE(said.front().find("prepared 1 parameters"), std::string::npos) << said.front();
}

TEST(CppApiContext, ALogThatThrowsIsSurvived) {
  ContextOptions options;
  options.settings = {{"log", "debug"}};
  options.log = [](Severity, const std::string&) { throw std::runtime_error("no log"); };
  Small run{Optimizer(Context(options))};
  EXPECT_NO_THROW(run.prepare());
}

/// What Settings leaves open comes from the environment; what it says goes before it.
TEST(CppApiSettings, GoBeforeTheEnvironment) {
  ASSERT_EQ(setenv("STEPFUSE_TARGET", "interp", 1), 0);
  Small open{Optimizer()};
  Settings settings;
  settings.target = "cpu";
  Small said{Optimizer(settings)};
  ASSERT_EQ(unsetenv("STEPFUSE_TARGET"), 0);
  open.prepare();
  said.prepare();
  EXPECT_NE(open.optimizer.explain().find("interp"), std::string::npos);
  EXPECT_EQ(said.optimizer.explain().find("interp"), std::string::npos);
}

TEST(CppApiOptimizer, MovesAndSwaps) {
  Small run{Optimizer()};
  run.prepare();
  Optimizer moved = std::move(run.optimizer);
  moved.step();
  run.optimizer = Optimizer();
  EXPECT_EQ(run.optimizer.parameter_count(), 0U);
  EXPECT_EQ(moved.parameter_count(), 1U);
  EXPECT_EQ(moved.group_count(), 1U);
  moved.bind(run.id, run.values.data(), run.gradient.data());
  moved.step();
  EXPECT_EQ(moved.steps(run.id), 2);
  EXPECT_EQ(moved.find_parameter("w").index, run.id.index);
  EXPECT_EQ(moved.group(run.id).index, run.group.index);
}

TEST(CppApiOptimizer, ProgressMayThrow) {
  Small run{Optimizer()};
  EXPECT_THROW(
      run.optimizer.prepare([](std::int64_t, std::int64_t, const std::string&) { throw std::out_of_range("x"); }),
      std::out_of_range);
  run.optimizer.bind(run.id, run.values.data(), run.gradient.data());  // it is prepared nonetheless
  run.optimizer.step();
  EXPECT_NEAR(run.values[5], kFirstStep, 1e-6);
}

TEST(CppApiOptimizer, StatesOfTheCallerWithStrides) {
  Small run{Optimizer()};
  Parameter parameter;
  parameter.name = "padded";
  parameter.shape = {2, 3};
  parameter.strides = {4, 1};
  parameter.caller_states = true;
  parameter.state_strides = {{"exp_avg", {4, 1}}};
  const ParameterId id = run.optimizer.add_parameter(run.group, parameter);
  parameter.name = "wrong";
  parameter.strides = {4};
  EXPECT_THROW(run.optimizer.add_parameter(run.group, parameter), Error);
  run.prepare();
  std::vector<float> values(8, 1), gradient(6, 0.5F), m(8), v(6);
  run.optimizer.bind(id, Binding{values.data(), gradient.data(), {{"exp_avg", m.data()}, {"exp_avg_sq", v.data()}}});
  run.optimizer.step();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], i % 4 == 3 ? 1 : kFirstStep, 1e-6) << i;
  EXPECT_NEAR(m[4], 0.05, 1e-7);
  const TensorView state = run.optimizer.state(id, "exp_avg");
  EXPECT_EQ(state.data, m.data());
  EXPECT_EQ(state.strides, (std::vector<std::int64_t>{4, 1}));
}

TEST(CppApiOptimizer, CheckpointsGoThroughMemory) {
  Small run{Optimizer()};
  run.prepare();
  run.optimizer.step();
  const std::vector<std::byte> bytes = run.optimizer.export_state();
  Small resumed{Optimizer()};
  resumed.prepare();
  resumed.optimizer.import_state(bytes);
  EXPECT_EQ(resumed.optimizer.steps(resumed.id), 1);
  resumed.values = run.values;
  resumed.optimizer.bind(resumed.id, resumed.values.data(), resumed.gradient.data());
  run.optimizer.step();
  resumed.optimizer.step();
  EXPECT_EQ(resumed.values, run.values);
  EXPECT_THROW(resumed.optimizer.import_state(bytes.data(), 9), Error);
}

}  // namespace
}  // namespace stepfuse
