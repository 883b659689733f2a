// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What the two numerics modes promise, on every recipe: strict is bit for bit the unfused step and the typed
// interpreter for any number of threads; default stays within a bound that follows from its operations (case E13).
#include "codegen/lower.h"
#include "runtime/cpu/cpu_kernels.h"
#include "tests/e2e/adamw_bounds.h"
#include "tests/e2e/optimizer_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>
#include <xmmintrin.h>

namespace stepfuse::tests {

namespace {

using ir::DType;
using ir::Mode;
using ir::OptionList;

const std::vector<std::string> kUnfused{"fuse", "orient", "cast_sink", "reuse_memory"};

struct RecipeCase {
  const char* name;
  const char* recipe;
  OptionList options;
  std::vector<int64_t> shape;
  DType dtype = DType::F32;
};

void PrintTo(const RecipeCase& each, std::ostream* stream) { *stream << each.name; }

class StrictRecipes : public testing::TestWithParam<RecipeCase> {};

void expect_same(DType dtype, const RunResult& expected, const Result<RunResult>& actual) {
  ASSERT_TRUE(actual.has_value()) << actual.error().message;
  EXPECT_EQ(difference(dtype, expected.param, actual->param), "");
  ASSERT_EQ(expected.states.size(), actual->states.size());
  for (size_t s = 0; s < expected.states.size(); ++s)
    EXPECT_EQ(difference(dtype, expected.states[s], actual->states[s]), "") << "state " << s;
}

TEST_P(StrictRecipes, FusedUnfusedAndTypedAgreeBitForBitOnAnyThreads) {
  const RecipeCase& each = GetParam();
  const int64_t count = compiler::element_count(each.shape);
  const Bytes param = random_tensor(each.dtype, count, 1);
  const Bytes grad = random_tensor(each.dtype, count, 2);
  const auto run = [&](const char* target, int threads, const std::vector<std::string>& disabled) {
    return run_rule(each.recipe, each.options, {each.shape, each.dtype, each.dtype, each.dtype}, param, grad,
                    {Mode::Strict, target, threads, disabled, 3});
  };
  const auto typed = run("interp", 1, {});
  ASSERT_TRUE(typed.has_value()) << typed.error().message;
  EXPECT_NE(difference(each.dtype, param, typed->param), "") << "the step did nothing";
  for (const int threads : {1, 2, 3, 5}) {
    SCOPED_TRACE(fmt::format("fused, {} threads", threads));
    expect_same(each.dtype, *typed, run("cpu", threads, {}));
  }
  for (const int threads : {1, 3}) {
    SCOPED_TRACE(fmt::format("unfused, {} threads", threads));
    expect_same(each.dtype, *typed, run("cpu", threads, kUnfused));
  }
}

const std::vector<int64_t> kVector{20011};

INSTANTIATE_TEST_SUITE_P(
    All, StrictRecipes,
    testing::ValuesIn(std::vector<RecipeCase>{
        {"adamw", "adamw", {}, kVector},
        {"adamw_amsgrad_maximize", "adamw", {{"amsgrad", "true"}, {"maximize", "true"}}, kVector},
        {"adamw_bf16", "adamw", {{"lr", "0.1"}}, kVector, DType::BF16},
        {"adamw_f16", "adamw", {{"lr", "0.1"}}, kVector, DType::F16},
        {"adamw_f64", "adamw", {}, kVector, DType::F64},
        {"adam", "adam", {}, kVector},
        {"adam_decay_amsgrad", "adam", {{"weight_decay", "0.1"}, {"amsgrad", "true"}}, kVector},
        {"sgd", "sgd", {}, kVector},
        {"sgd_momentum", "sgd", {{"momentum", "0.9"}}, kVector},
        {"sgd_dampening", "sgd", {{"momentum", "0.9"}, {"dampening", "0.1"}, {"weight_decay", "0.1"}}, kVector},
        {"sgd_nesterov", "sgd", {{"momentum", "0.9"}, {"nesterov", "true"}, {"maximize", "true"}}, kVector},
        {"muon_bf16_wide", "muon", {}, {70, 130}},
        {"muon_bf16_tall", "muon", {}, {130, 70}},
        {"muon_f32_wide", "muon", {{"ns_dtype", "f32"}}, {70, 130}},
        {"muon_f32_tall", "muon", {{"ns_dtype", "f32"}}, {130, 70}},
        {"muon_bf16_parameters", "muon", {{"lr", "0.1"}}, {40, 64}, DType::BF16},
        {"muon_other_polynomial", "muon", {{"ns_steps", "7"}, {"ns_coefficients", "2,-1.5,0.5"}}, {33, 65}}}),
    [](const auto& p) { return std::string(p.param.name); });

/// A user's rule and other coefficients get the kernels that the recipes get.
RunResult launches_of(const std::string& rule, const OptionList& options, const std::vector<int64_t>& shape,
                      Mode mode) {
  const int64_t count = compiler::element_count(shape);
  auto result = run_rule(rule, options, {shape}, random_tensor(DType::F32, count, 1),
                         random_tensor(DType::F32, count, 2), {mode, "cpu", 2, {}, 1});
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
  return result ? std::move(*result) : RunResult{};
}

TEST(EqualRules, AdamWInAnotherOrderIsOneLaunch) {
  for (const Mode mode : {Mode::Strict, Mode::Default}) {
    const RunResult result = launches_of(STEPFUSE_SOURCE_DIR "/examples/ir/adamw_reordered.sfir", {}, {100, 50}, mode);
    EXPECT_EQ(result.launched, (compiler::LaunchCounts{1, 0, 0}));
    EXPECT_EQ(result.planned.fused, result.launched);
    EXPECT_EQ(result.planned.bytes_per_param, 28);
  }
}

TEST(EqualRules, MuonWithSevenStepsGetsTheSameKernels) {
  for (const Mode mode : {Mode::Strict, Mode::Default})
    for (const char* ns_dtype : {"bf16", "f32"}) {
      SCOPED_TRACE(ns_dtype);
      const RunResult five = launches_of("muon", {{"ns_dtype", ns_dtype}}, {48, 96}, mode);
      const RunResult seven = launches_of(
          "muon", {{"ns_dtype", ns_dtype}, {"ns_steps", "7"}, {"ns_coefficients", "3,-3.2,1.2"}}, {48, 96}, mode);
      EXPECT_EQ(five.launched.gemms, 15);
      EXPECT_EQ(seven.launched.gemms, 21);
      EXPECT_EQ(seven.planned.fused, seven.launched);
      if (mode == Mode::Strict) continue;  // keeps the kernels between the products, one set per iteration
      EXPECT_EQ(seven.launched.elementwise, five.launched.elementwise);
      EXPECT_EQ(seven.launched.aux, five.launched.aux);
      EXPECT_LE(five.launched.elementwise, 2);
    }
}

// ---- E13
// -------------------------------------------------------------------------------------------------------------

TEST(Numerics, E13_DefaultIsWithinTwoUlpOfEachOperationsLargestOperand) {
  const AdamWData before = random_adamw();
  expect_within_two_ulp(before, adamw_step(before, "cpu", Mode::Default), adamw_step(before, "interp", Mode::Strict));
}

TEST(Numerics, E13_StrictIsTheUnfusedStepBitForBit) {
  const AdamWData before = random_adamw();
  const AdamWData typed = adamw_step(before, "interp", Mode::Strict);
  for (const auto& disabled : {std::vector<std::string>{}, kUnfused}) {
    const AdamWData strict = adamw_step(before, "cpu", Mode::Strict, disabled);
    EXPECT_EQ(strict.p, typed.p);
    EXPECT_EQ(strict.m, typed.m);
    EXPECT_EQ(strict.v, typed.v);
  }
}

TEST(Numerics, E13_ModeIsInTheKernelKey) {
  const auto key = [](Mode mode) {
    runtime::OptimizerSettings settings;
    settings.mode = mode;
    auto optimizer = std::move(runtime::Optimizer::create(settings).value());
    const uint32_t group = optimizer.add_group("adamw", {}).value();
    EXPECT_TRUE(optimizer.add_parameter(group, "w", {{16}}).has_value());
    const auto plan = compiler::make_plan(optimizer.planned(), {mode, {}, {}});
    const compiler::GroupPlan& adamw = plan.value().groups.at(0);
    const auto lowered = codegen::lower_phase(adamw, adamw.steps.at(0), 0, mode);
    return runtime::cpu_kernel_key(lowered.spec, runtime::cpu_target("cpu").value());
  };
  EXPECT_EQ(key(Mode::Strict), key(Mode::Strict));
  EXPECT_NE(key(Mode::Strict), key(Mode::Default));
}

/// Turns flushing of subnormal numbers on, as some programs do, and restores what was.
class FlushingCaller {
 public:
  explicit FlushingCaller(bool flushing) : before_(_mm_getcsr()) {
    if (flushing) _mm_setcsr(before_ | 0x8040U);
  }
  ~FlushingCaller() { _mm_setcsr(before_); }
  FlushingCaller(const FlushingCaller&) = delete;
  FlushingCaller& operator=(const FlushingCaller&) = delete;

 private:
  unsigned before_;
};

TEST(Numerics, E13_SubnormalNumbersAreNotFlushed) {
  constexpr float kTiny = 1e-42F;
  for (const char* target : {"interp", "cpu"})
    for (const Mode mode : {Mode::Strict, Mode::Default})
      for (const bool flushing : {false, true}) {
        if (flushing && target == std::string("interp")) continue;  // computes in f64, where 1e-42 is a normal number
        SCOPED_TRACE(fmt::format("{} {} {}", target, mode == Mode::Strict ? "strict" : "default", flushing));
        std::vector<float> param(140'000, 0), grad(140'000, kTiny);
        runtime::OptimizerSettings settings;
        settings.target = target;
        settings.mode = mode;
        settings.threads = 2;
        auto optimizer = std::move(runtime::Optimizer::create(settings).value());
        const uint32_t group = optimizer.add_group("sgd", {{"lr", "1"}, {"momentum", "0.5"}}).value();
        ASSERT_TRUE(optimizer.add_parameter(group, "w", {{140'000}}).has_value());
        ASSERT_TRUE(optimizer.prepare().has_value());
        ASSERT_TRUE(optimizer.bind(0, param.data(), grad.data()).has_value());
        unsigned csr_before = 0, csr_after = 0;
        {
          const FlushingCaller caller(flushing);
          csr_before = _mm_getcsr() & 0xFFC0U;
          ASSERT_TRUE(optimizer.step().has_value());
          csr_after = _mm_getcsr() & 0xFFC0U;
        }
        EXPECT_EQ(csr_before, csr_after) << "the caller's floating-point mode changed";
        EXPECT_EQ(std::count(param.begin(), param.end(), -kTiny), 140'000);
        const auto* buffer = static_cast<const float*>(optimizer.states(0).value().at(0).data);
        EXPECT_EQ(std::count(buffer, buffer + 140'000, kTiny), 140'000);
      }
}

}  // namespace

}  // namespace stepfuse::tests
