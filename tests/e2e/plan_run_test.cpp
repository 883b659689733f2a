// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Plans as they run: the rules whose plans need copies or careful placement give the interpreter's bits, and the
// executor launches what the plan counts.
#include "tests/e2e/optimizer_run.h"

#include <limits>

#include <gtest/gtest.h>

namespace stepfuse::tests {

namespace {

struct RuleCase {
  const char* name;
  std::string text;
  std::vector<int64_t> shape;
};

std::string vectors(const std::string& body) {
  return "// stepfuse-ir v1\nrecipe @r(%p: f32[N] param, %g: f32[N] grad, %a: f32[N] state \"a\", %b: f32[N] state "
         "\"b\", #lr: group = 0.1) {\n" +
         body + "}\n";
}

std::string matrices(int rows, int cols, const std::string& body) {
  return fmt::format(
      "// stepfuse-ir v1\nrecipe @r(%p: f32[{0}, {1}] param, %g: f32[{0}, {1}] grad, %a: f32[{0}, {1}] "
      "state \"a\", %s: f32[{0}, {0}] state \"s\", %k: f32[1, 1] state \"k\", #lr: group = 0.1) {{\n{2}}}\n",
      rows, cols, body);
}

// Every rule writes its states from the gradient first, or the states would stay zero.
std::vector<RuleCase> rules() {
  return {{"swap of two states",
           vectors("%x = add %a, %g : f32\n %r = axpy #lr, %b, %p : f32\n return %r -> %p, %b -> %a, %x -> %b\n"),
           {301}},
          {"cycle of three", vectors("%r = sub %a, %g : f32\n return %r -> %p, %p -> %b, %b -> %a\n"), {64}},
          {"an input passed through", vectors("%r = sub %p, %g : f32\n return %r -> %p, %p -> %a, %g -> %b\n"), {37}},
          {"one input for two targets", vectors("%r = sub %p, %g : f32\n return %r -> %p, %p -> %a, %p -> %b\n"), {37}},
          {"one value for three targets",
           vectors("%r = axpy #lr, %g, %p : f32\n return %r -> %p, %r -> %a, %r -> %b\n"),
           {37}},
          {"the parameter stays", vectors("%x = add %a, %g : f32\n return %p -> %p, %x -> %a, %x -> %b\n"), {5}},
          {"one element for all",
           matrices(4, 6,
                    "%n = norm %g {matrix} : f32\n %k1 = add %k, %n : f32\n"
                    "%x = mul %g, %k : f32\n %r = sub %p, %x : f32\n"
                    "return %r -> %p, %k1 -> %k\n"),
           {4, 6}},
          {"the transpose of the parameter",
           matrices(5, 5, "%t = transpose %p : f32\n %r = sub %t, %g : f32\n return %r -> %p, %t -> %a\n"),
           {5, 5}},
          {"an output that is a view",
           matrices(5, 5, "%x = add %p, %g : f32\n %t = transpose %x : f32\n return %t -> %p, %x -> %a\n"),
           {5, 5}},
          {"a product over its own C",
           matrices(4, 6,
                    "%s1 = matmul %g, %g, %s, 1, 0.5 {tb} : f32\n"
                    "%r = matmul %s1, %g, %p, -0.1, 1 : f32\n"
                    "return %r -> %p, %s1 -> %s\n"),
           {4, 6}},
          {"a product that reads what it replaces",
           matrices(4, 6,
                    "%s1 = matmul %g, %p {tb} : f32\n %r = matmul %s1, %p, %p, 0.5, 1 : f32\n"
                    "return %r -> %p, %s1 -> %s\n"),
           {4, 6}},
          {"clusters that wait for each other",
           matrices(70, 80,
                    "%x = norm %g {all} : f32\n %y = div %g, %x : f32\n %z = norm %y {rows} : f32\n"
                    "%w = norm %z {all} : f32\n %u = div %y, %w : f32\n %r = sub %p, %u : f32\n"
                    "return %r -> %p, %u -> %a\n"),
           {70, 80}}};
}

TEST(PlanRun, AwkwardRulesGiveTheInterpretersBits) {
  for (const RuleCase& rule : rules()) {
    SCOPED_TRACE(rule.name);
    const int64_t count = compiler::element_count(rule.shape);
    const Bytes param = random_tensor(ir::DType::F32, count, 1);
    const Bytes grad = random_tensor(ir::DType::F32, count, 2);
    const ir::ParameterSpec spec{.shape = rule.shape};
    const auto expected = run_rule(rule.text, {}, spec, param, grad, {ir::Mode::Strict, "interp", 1, {}, 3});
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    for (const std::vector<std::string>& disabled :
         std::vector<std::vector<std::string>>{{}, {"fuse"}, {"reuse_memory"}}) {
      const auto actual = run_rule(rule.text, {}, spec, param, grad, {ir::Mode::Strict, "cpu", 2, disabled, 3});
      ASSERT_TRUE(actual.has_value()) << actual.error().message;
      EXPECT_EQ(difference(ir::DType::F32, expected->param, actual->param), "");
      for (size_t s = 0; s < expected->states.size(); ++s)
        EXPECT_EQ(difference(ir::DType::F32, expected->states[s], actual->states[s]), "") << "state " << s;
      EXPECT_EQ(actual->launched, actual->planned.fused);
    }
  }
}

/// Parameters of one recipe stepped together.
void expect_counted(const std::string& recipe, const std::vector<std::vector<int64_t>>& shapes,
                    const runtime::OptimizerSettings& settings) {
  auto optimizer = *runtime::Optimizer::create(settings);
  const uint32_t group = *optimizer.add_group(recipe, {});
  std::vector<Bytes> params, grads;
  for (size_t i = 0; i < shapes.size(); ++i) {
    ASSERT_TRUE(optimizer.add_parameter(group, "w" + std::to_string(i), {.shape = shapes[i]}));
    const int64_t count = compiler::element_count(shapes[i]);
    params.push_back(random_tensor(ir::DType::F32, count, 2 * i));
    grads.push_back(random_tensor(ir::DType::F32, count, 2 * i + 1));
  }
  ASSERT_TRUE(optimizer.prepare().has_value());
  for (uint32_t i = 0; i < shapes.size(); ++i)
    ASSERT_TRUE(optimizer.bind(i, params[i].data(), grads[i].data()).has_value());
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(optimizer.step().has_value());
    EXPECT_EQ(optimizer.report().last_step, optimizer.counts().fused) << recipe << " " << shapes.size();
  }
  EXPECT_EQ(static_cast<size_t>(optimizer.counts().fused.total()), optimizer.plan().launches.size());
}

TEST(PlanRun, TheExecutorLaunchesWhatThePlanCounts) {
  for (const ir::Mode mode : {ir::Mode::Default, ir::Mode::Strict}) {
    for (const std::vector<std::string>& disabled :
         std::vector<std::vector<std::string>>{{}, {"batch", "horizontal"}, {"absorb_update", "fold_norm"}, {"fuse"}}) {
      runtime::OptimizerSettings settings;
      settings.mode = mode;
      settings.threads = 2;
      settings.runner.disabled = disabled;
      expect_counted("muon", {{16, 24}}, settings);
      expect_counted("muon", {{24, 16}, {24, 16}, {16, 24}, {8, 8}, {24, 16}}, settings);
      expect_counted("adamw", {{1}, {7}, {64, 3}, {5000}, {2, 3, 4}}, settings);
    }
  }
}

TEST(PlanRun, HyperparametersOutOfRangeAreRefusedBetweenSteps) {
  struct Change {
    const char *recipe, *option;
    double value;
    bool legal;
  };
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Change& c : std::vector<Change>{{"adamw", "lr", -0.1, false},
                                             {"adamw", "lr", nan, false},
                                             {"adamw", "lr", inf, false},
                                             {"adamw", "lr", 0, true},
                                             {"adamw", "beta2", 1, false},
                                             {"adamw", "beta2", -0.2, false},
                                             {"adamw", "eps", -1, false},
                                             {"adamw", "beta2", 0.99, true},
                                             {"muon", "momentum", 1, false},
                                             {"muon", "ns_steps", 3, false},
                                             {"muon", "lrr", 0.1, false}}) {
    SCOPED_TRACE(fmt::format("{} {}={}", c.recipe, c.option, c.value));
    auto optimizer = *runtime::Optimizer::create(
        {.mode = ir::Mode::Strict, .target = "interp", .threads = 1, .runner = {}, .context = {}});
    const uint32_t group = *optimizer.add_group(c.recipe, {});
    ASSERT_TRUE(optimizer.add_parameter(group, "w", {.shape = {4, 4}}).has_value());
    ASSERT_TRUE(optimizer.prepare().has_value());
    const Outcome outcome = optimizer.set(group, c.option, c.value);
    EXPECT_EQ(outcome.has_value(), c.legal);
    if (outcome.has_value()) continue;
    EXPECT_EQ(outcome.error().code, StatusCode::InvalidArgument);
    EXPECT_NE(outcome.error().message.find(c.option), std::string::npos) << outcome.error().message;
    EXPECT_FALSE(outcome.error().hint.empty());
  }
}

}  // namespace

}  // namespace stepfuse::tests
