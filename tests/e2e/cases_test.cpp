// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference cases about memory, numerics and the cache, each named after its id. F01 (a host that hides AVX-512) is in
// tests/unit/cpu_features_test.cpp and emit_llvm_test.cpp; Muon's cases are in muon_cases_test.cpp,
// A20 is in tests/unit/route_test.cpp, H01, H02, H03 and H06 are in config_test.cpp there.
#include "codegen/lower.h"
#include "runtime/cpu/run_fused.h"
#include "runtime/kernel_cache.h"
#include "tests/e2e/optimizer_run.h"

#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

namespace stepfuse::tests {

namespace {

using runtime::Optimizer;
using Shape = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Optimizer make_optimizer(const std::string& target, ir::Mode mode, int threads = 2) {
  runtime::OptimizerSettings settings;
  settings.target = target;
  settings.mode = mode;
  settings.threads = threads;
  return std::move(Optimizer::create(settings).value());
}

std::string message(const Outcome& outcome) { return outcome ? std::string() : outcome.error().message; }

class Cases : public testing::TestWithParam<std::tuple<std::string, ir::Mode>> {
 protected:
  const std::string& target() const { return std::get<0>(GetParam()); }
  ir::Mode mode() const { return std::get<1>(GetParam()); }
};

/// Adds 1 to every element of tensors of these extents in one optimizer, and expects each to be updated once per step.
void expect_each_updated_once(Optimizer optimizer, const std::vector<int64_t>& extents) {
  const uint32_t group = optimizer.add_group("sgd", {{"lr", "1"}}).value();
  // One element more than each tensor has: an empty one needs an address, and nothing beyond the end may change.
  std::vector<std::vector<float>> params, grads;
  for (size_t i = 0; i < extents.size(); ++i) {
    ASSERT_TRUE(optimizer.add_parameter(group, fmt::format("w{}", i), {{extents[i]}}).has_value());
    params.emplace_back(static_cast<size_t>(extents[i]) + 1, static_cast<float>(i));
    grads.emplace_back(static_cast<size_t>(extents[i]) + 1, -1.0F);
  }
  ASSERT_EQ(message(optimizer.prepare()), "");
  for (uint32_t i = 0; i < extents.size(); ++i)
    ASSERT_EQ(message(optimizer.bind(i, params[i].data(), grads[i].data())), "");
  for (int step = 1; step <= 2; ++step) {
    ASSERT_EQ(message(optimizer.step()), "");
    for (size_t i = 0; i < extents.size(); ++i) {
      for (int64_t e = 0; e < extents[i]; ++e)
        EXPECT_EQ(params[i][static_cast<size_t>(e)], static_cast<float>(i) + static_cast<float>(step)) << i;
      EXPECT_EQ(params[i].back(), static_cast<float>(i)) << "tensor " << i << " was written beyond its end";
    }
  }
}

/// PyTorch issue 100701: an empty tensor in a group stopped the updates of those after it.
TEST_P(Cases, A35_EmptyTensorDoesNotStopTheOthers) {
  expect_each_updated_once(make_optimizer(target(), mode()), {1, 1, 0, 1, 0});
  // TransformerEngine issues 3207 and 3202: 35 tensors, an empty one, 20 more, in one launch.
  std::vector<int64_t> many(35, 7);
  many.push_back(0);
  many.insert(many.end(), 20, 5000);
  for (const int threads : {1, 2, 3}) expect_each_updated_once(make_optimizer(target(), mode(), threads), many);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Cases,
                         testing::Combine(testing::Values("interp", "cpu"),
                                          testing::Values(ir::Mode::Strict, ir::Mode::Default)),
                         [](const auto& p) {
                           return std::get<0>(p.param) +
                                  (std::get<1>(p.param) == ir::Mode::Strict ? "_strict" : "_default");
                         });

/// Calls of a kernel that only writes down its tasks: enough to see which elements a launch would touch.
struct TouchedRange {
  int64_t calls = 0, next = 0, dims[3] = {0, 0, 0};
};
TouchedRange touched;

void note_task(const codegen::KernelCall* call, int64_t unit, int64_t begin, int64_t end) {
  EXPECT_EQ(unit, 0);
  EXPECT_EQ(begin, touched.next) << "a gap or an overlap after task " << touched.calls;
  EXPECT_EQ(begin % codegen::kChunk, 0);
  EXPECT_GT(end, begin);
  touched.next = end;
  ++touched.calls;
  for (size_t d = 0; d < 3; ++d) touched.dims[d] = call->dims[d];
}

/// Runs AdamW's launch over a parameter of this shape with memory that is never touched.
void expect_whole_range(const Shape& shape, int64_t elements) {
  Optimizer optimizer = make_optimizer("cpu", ir::Mode::Default, 1);
  const uint32_t group = optimizer.add_group("adamw", {}).value();
  ASSERT_TRUE(optimizer.add_parameter(group, "embedding", {shape}).has_value());
  const auto plan = compiler::make_plan(optimizer.planned(), {});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(compiler::count_plan(*plan, optimizer.planned()).parameters, elements);
  const compiler::GroupPlan& adamw = plan->groups.at(0);
  runtime::PreparedStep step{compiler::StepKind::Fused, {}, {}, {}, {}};
  runtime::PreparedPhase phase;
  phase.lowered = codegen::lower_phase(adamw, adamw.steps.at(0), 0, ir::Mode::Default);
  phase.function = note_task;
  EXPECT_EQ(codegen::phase_dims(phase.lowered, elements)[2], elements);
  step.phases.push_back(std::move(phase));
  runtime::MemberBinding binding;
  binding.inputs.assign(adamw.graph.inputs().size(), nullptr);
  const std::vector<double> scalars(64);
  const runtime::MemberMemory member{&binding, nullptr, nullptr, nullptr, scalars.data(), elements};
  runtime::ThreadPool pool(1);
  std::vector<int64_t> first_task(2);
  touched = {};
  runtime::run_fused(adamw, step, {&member, 1}, pool, first_task);
  EXPECT_EQ(touched.next, elements) << "the last element is not reached";
  EXPECT_EQ(touched.dims[2], elements);
}

/// DeepSpeed issue 7640: 2147483648 elements became -2147483648 and 2476250368 became -1818716928, so nothing was
/// updated and no error said so.
TEST(Cases, A36_MoreThanTwoToThe31Elements) {
  expect_whole_range({2147483648}, 2147483648);
  expect_whole_range({19345706, 128}, 2476250368);
  expect_whole_range({2147483647}, 2147483647);
  EXPECT_EQ(codegen::chunks_of(2147483648), 524288);
  EXPECT_EQ(codegen::chunks_of(2147483649), 524289);
  EXPECT_EQ(codegen::chunks_of(2476250368), 604554);  // 604553.3 chunks
}

TEST(Cases, A36_PartialsOfLongReductionsAreCounted) {
  const std::string rule = R"(// stepfuse-ir v1
recipe @scaled(%p: f32[R, C] param, %g: f32[R, C] grad, #lr: group = 1) {
  %n = norm %g {matrix}
  %u = div %g, %n
  %p1 = axpy (-#lr), %u, %p
  return %p1 -> %p
})";
  Optimizer optimizer = make_optimizer("cpu", ir::Mode::Default, 1);
  const uint32_t group = optimizer.add_group(rule, {}).value();
  ASSERT_TRUE(optimizer.add_parameter(group, "w", {{19345706, 128}}).has_value());
  const auto plan = compiler::make_plan(optimizer.planned(), {});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const auto lowered = codegen::lower_phase(plan->groups[0], plan->groups[0].steps.at(0), 0, ir::Mode::Default);
  const codegen::ReductionLayout layout = codegen::reduction_layout(lowered, 2476250368);
  EXPECT_EQ(layout.results, 1);
  EXPECT_EQ(layout.chunks, 604554);
}

TEST(Cases, A36_ShapesBeyondMemoryAreRefused) {
  Optimizer optimizer = make_optimizer("cpu", ir::Mode::Default);
  const uint32_t group = optimizer.add_group("adamw", {}).value();
  const Shape refused[] = {{int64_t{1} << 32, int64_t{1} << 31}, {int64_t{1} << 62}, {3037000500, 3037000500}};
  for (const Shape& shape : refused) {
    const auto added = optimizer.add_parameter(group, "w", {shape});
    ASSERT_FALSE(added.has_value()) << shape[0];
    EXPECT_EQ(added.error().code, StatusCode::InvalidArgument);
    EXPECT_NE(added.error().message.find("more elements than memory can hold"), std::string::npos);
  }
  EXPECT_FALSE(optimizer.add_parameter(group, "w", {{-1}}).has_value());
  EXPECT_TRUE(optimizer.add_parameter(group, "w", {{2}}).has_value()) << "a refused name is free";
}

/// What a scan of one tensor for values that are not finite found.
bool found_inf(const std::vector<float>& grad, double scale, const std::string& target, ir::Mode mode, int threads) {
  const std::string rule = R"(// stepfuse-ir v1
recipe @scan(%p: f32[R, C] param, %g: f32[R, C] grad, %s: f32[1, 1] state "found_inf", #scale: group = 1) {
  %u = mul %g, #scale
  %ok = isfinite %u
  %bad = not %ok
  %any = any %bad {matrix}
  %s1 = select %any, 1, 0 : f32
  %p1 = select %any, %p, 0 : f32
  return %p1 -> %p, %s1 -> %s
})";
  Optimizer optimizer = make_optimizer(target, mode, threads);
  const auto group = optimizer.add_group(rule, {{"scale", fmt::format("{}", scale)}});
  EXPECT_TRUE(group.has_value()) << (group ? "" : group.error().message);
  if (!group) return false;
  EXPECT_TRUE(optimizer.add_parameter(*group, "w", {{1, static_cast<int64_t>(grad.size())}}).has_value());
  EXPECT_EQ(message(optimizer.prepare()), "");
  std::vector<float> param(grad.size(), 1);
  EXPECT_EQ(message(optimizer.bind(0, param.data(), grad.data())), "");
  EXPECT_EQ(message(optimizer.step()), "");
  const float flag = *static_cast<const float*>(optimizer.states(0).value().at(0).data);
  EXPECT_TRUE(flag == 0 || flag == 1) << flag;
  for (const float value : param) EXPECT_EQ(value, flag) << "the flag and its use differ";
  return flag != 0;
}

class Scan : public testing::TestWithParam<std::tuple<std::string, ir::Mode>> {};

/// symengine issue 1432: under finite-only flags the compiler turns the scan into "false". [1, NaN, Inf, 3.4e38 * 2].
TEST_P(Scan, F07_NonFiniteValuesAreFound) {
  const auto& [target, mode] = GetParam();
  for (const size_t size : {size_t{1}, size_t{70}, size_t{9000}})
    for (const size_t place : {size_t{0}, size / 2, size - 1}) {
      SCOPED_TRACE(fmt::format("element {} of {}", place, size));
      const auto found = [&](float value, double scale) {
        std::vector<float> grad(size, 0.5F);
        grad[place] = value;
        return found_inf(grad, scale, target, mode, 2);
      };
      EXPECT_FALSE(found(1, 1));
      EXPECT_FALSE(found(3.4e38F, 1));
      EXPECT_TRUE(found(kNan, 1));
      EXPECT_TRUE(found(-kNan, 1));
      EXPECT_TRUE(found(kInf, 1));
      EXPECT_TRUE(found(-kInf, 1));
      // Overflows in f32; the interpreter of default mode computes in f64, where it is finite.
      EXPECT_EQ(found(3.4e38F, 2), target != "interp" || mode == ir::Mode::Strict);
    }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Scan,
                         testing::Combine(testing::Values("interp", "cpu", "x86-64-v3"),
                                          testing::Values(ir::Mode::Strict, ir::Mode::Default)),
                         [](const auto& p) {
                           const bool strict = std::get<1>(p.param) == ir::Mode::Strict;
                           return (std::get<0>(p.param) == "x86-64-v3" ? "v3" : std::get<0>(p.param)) +
                                  (strict ? "_strict" : "_default");
                         });

struct BadOption {
  const char* recipe;
  ir::OptionList options;
  const char* message;
  const char* hint;
};

void expect_refused(const BadOption& bad) {
  SCOPED_TRACE(fmt::format("{} {}={}", bad.recipe, bad.options[0].first, bad.options[0].second));
  Optimizer optimizer = make_optimizer("cpu", ir::Mode::Default);
  const auto group = optimizer.add_group(bad.recipe, bad.options);
  ASSERT_FALSE(group.has_value());
  EXPECT_EQ(group.error().code, StatusCode::InvalidArgument);
  EXPECT_NE(group.error().message.find(bad.message), std::string::npos) << group.error().message;
  EXPECT_NE(group.error().hint.find(bad.hint), std::string::npos) << group.error().hint;
}

/// DeepTab issue 415 and keras issue 2616: a misspelt option trained with its default for weeks.
TEST(Cases, H02_UnknownHyperparameterIsAnError) {
  const BadOption cases[] = {{"muon", {{"momentun", "0.9"}}, "muon has no option 'momentun'", "momentum"},
                             {"muon", {{"betas", "0.9,0.95"}}, "muon has no option 'betas'", "momentum"},
                             {"muon", {{"muon_ns_step", "5"}}, "muon has no option 'muon_ns_step'", "ns_steps"},
                             {"adamw", {{"learning_rate", "1"}}, "adamw has no option 'learning_rate'", "lr"},
                             {"adamw", {{"Betas", "0.9,0.95"}}, "adamw has no option 'Betas'", "betas"},
                             {"sgd", {{"eps", "1e-8"}}, "sgd has no option 'eps'", "lr"}};
  for (const BadOption& bad : cases) expect_refused(bad);
}

/// mlx pull request 4310 and PyTorch issue 30889: beta2 = 1 moved a weight to about -1.3e6 in five steps.
TEST(Cases, H03_OutOfRangeIsAnErrorAtConstruction) {
  const BadOption cases[] = {{"adamw", {{"lr", "-0.1"}}, "lr=-0.1", "[0, inf)"},
                             {"adamw", {{"lr", "nan"}}, "lr=nan", "[0, inf)"},
                             {"adamw", {{"lr", "inf"}}, "lr=inf", "[0, inf)"},
                             {"adamw", {{"beta2", "1.0"}}, "beta2=1.0", "[0, 1)"},
                             {"adamw", {{"betas", "0.9,1.0"}}, "betas=1.0", "[0, 1)"},
                             {"adamw", {{"beta2", "-0.2"}}, "beta2=-0.2", "[0, 1)"},
                             {"adamw", {{"eps", "-1"}}, "eps=-1", "[0, inf)"},
                             {"muon", {{"lr", "-0.1"}}, "lr=-0.1", "[0, inf)"},
                             {"muon", {{"eps", "-1"}}, "eps=-1", "[0, inf)"},
                             {"muon", {{"momentum", "1"}}, "momentum=1", "[0, 1)"},
                             {"muon", {{"ns_steps", "0"}}, "ns_steps=0", "[1, 99]"},
                             {"muon", {{"ns_steps", "-1"}}, "ns_steps=-1", "[1, 99]"},
                             {"muon", {{"ns_steps", "100"}}, "ns_steps=100", "[1, 99]"},
                             {"muon", {{"ns_steps", "2.5"}}, "ns_steps=2.5", "an integer"}};
  for (const BadOption& bad : cases) expect_refused(bad);
  Optimizer optimizer = make_optimizer("cpu", ir::Mode::Default);
  EXPECT_TRUE(optimizer.add_group("adamw", {{"lr", "0"}}).has_value()) << "lr 0 is legal";
}

TEST(Cases, H03_OutOfRangeIsAnErrorWhenChangedLater) {
  Optimizer optimizer = make_optimizer("cpu", ir::Mode::Default);
  const uint32_t group = optimizer.add_group("adamw", {{"lr", "1"}, {"weight_decay", "0"}}).value();
  ASSERT_TRUE(optimizer.add_parameter(group, "w", {{1}}).has_value());
  ASSERT_EQ(message(optimizer.prepare()), "");
  const std::pair<const char*, double> bad[] = {{"lr", -0.1},    {"lr", kNan},    {"lr", kInf}, {"beta2", 1.0},
                                                {"beta2", -0.2}, {"beta1", kNan}, {"eps", -1},  {"weight_decay", -1}};
  for (const auto& [option, value] : bad) {
    const Outcome outcome = optimizer.set(group, option, value);
    ASSERT_FALSE(outcome.has_value()) << option << "=" << value;
    EXPECT_EQ(outcome.error().code, StatusCode::InvalidArgument);
    EXPECT_NE(outcome.error().message.find(option), std::string::npos);
    EXPECT_NE(outcome.error().hint.find("[0, "), std::string::npos) << outcome.error().hint;
  }
  // What was refused changed nothing: the first step is lr * sign(g). Then lr 0, which is legal, moves nothing.
  float param = 3;
  const float grad = 2;
  ASSERT_EQ(message(optimizer.bind(0, &param, &grad)), "");
  ASSERT_EQ(message(optimizer.step()), "");
  EXPECT_NEAR(param, 2, 1e-6);
  ASSERT_EQ(message(optimizer.set(group, "lr", 0)), "");
  const float before = param;
  ASSERT_EQ(message(optimizer.step()), "");
  EXPECT_EQ(param, before);
}

/// PyTorch issues 107076 and 133898: a kernel for each new lr. Every hyperparameter that may change, changes each step.
TEST(Cases, I01_NoKernelIsCompiledAfterTheFirstStep) {
  Optimizer optimizer = make_optimizer("cpu", ir::Mode::Default);
  const std::map<std::string, std::vector<std::string>> changing{
      {"muon", {"lr", "momentum", "weight_decay", "eps"}},
      {"adamw", {"lr", "beta1", "beta2", "weight_decay", "eps"}},
      {"sgd", {"lr", "momentum", "dampening", "weight_decay"}}};
  std::vector<uint32_t> groups;
  std::vector<std::vector<float>> params, grads;
  for (const auto& [recipe, options] : changing) {
    const ir::OptionList given = recipe == "sgd" ? ir::OptionList{{"momentum", "0.5"}} : ir::OptionList{};
    groups.push_back(optimizer.add_group(recipe, given).value());
    ASSERT_TRUE(optimizer.add_parameter(groups.back(), recipe, {{8, 16}}).has_value());
    params.emplace_back(128, 1.0F);
    grads.emplace_back(128, 0.25F);
  }
  ASSERT_EQ(message(optimizer.prepare()), "");
  for (uint32_t i = 0; i < groups.size(); ++i)
    ASSERT_EQ(message(optimizer.bind(i, params[i].data(), grads[i].data())), "");
  ASSERT_EQ(message(optimizer.step()), "");
  const int64_t process = runtime::KernelCache::compiled_in_process();
  const int64_t own = optimizer.report().compiled_kernels;
  for (int step = 1; step <= 1000; ++step) {
    size_t g = 0;
    for (const auto& [recipe, options] : changing) {
      for (const std::string& option : options)
        ASSERT_EQ(message(optimizer.set(groups[g], option, 1e-6 + 9e-4 * step)), "") << recipe << " " << option;
      ++g;
    }
    ASSERT_EQ(message(optimizer.step()), "");
  }
  EXPECT_EQ(runtime::KernelCache::compiled_in_process(), process);
  EXPECT_EQ(optimizer.report().compiled_kernels, own);
  EXPECT_EQ(optimizer.steps(0).value(), 1001);
  for (const auto& param : params)
    for (const float value : param) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace

}  // namespace stepfuse::tests
