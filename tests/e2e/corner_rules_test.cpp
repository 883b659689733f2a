// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Legal rules that once came out wrong: each through the CPU, fused, in both modes, against the interpreter.
#include "tests/e2e/optimizer_run.h"

#include <cmath>

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace stepfuse::tests {

namespace {

struct CornerRule {
  const char* name;
  std::string body;  // after "p" and "g", of the shape below
  std::vector<int64_t> shape;
  ir::DType dtype = ir::DType::F32;
  double tolerance = 1e-5;  // of default mode, on values of about 100: a few roundings, of bf16 where the rule has them
};

std::string text_of(const CornerRule& rule) { return "// stepfuse-ir v1\nrecipe @corner(" + rule.body; }

std::string many_states(int count) {
  std::string inputs = "%p: f32[N] param, %g: f32[N] grad";
  std::string lines;
  std::string outputs = "%g -> %p";
  for (int i = 0; i < count; ++i) {
    inputs += fmt::format(", %s{}: f32[N] state \"s{}\"", i, i);
    lines += fmt::format("  %t{} = add %s{}, %g : f32\n", i, i);
    outputs += fmt::format(", %t{} -> %s{}", i, i);
  }
  return inputs + ") {\n" + lines + "  return " + outputs + "\n}\n";
}

std::string many_reductions(int count) {
  std::string lines = "%p: f32[4, 5] param, %g: f32[4, 5] grad) {\n  %a0 = mul %p, 0.5 : f32\n";
  for (int i = 1; i <= count; ++i)
    lines += fmt::format(
        "  %x{0} = mul %g, {0} : f32\n  %r{0} = sum %x{0} {{all}} : f32\n  %a{0} = add %a{1}, %r{0} : f32\n", i, i - 1);
  return lines + fmt::format("  return %a{} -> %p\n}}\n", count);
}

const CornerRule kRules[] = {
    {"StateOfOtherExtents",
     "%p: f32[R,C] param, %g: f32[R,C] grad, %s: f32[R,R] state \"pre\") {\n"
     "  %gram = matmul %g, %g {tb} : f32\n  %s1 = lerp %s, %gram, 0.1 : f32\n"
     "  %u = matmul %s1, %g : f32\n  %q = axpy -0.1, %u, %p : f32\n  return %q -> %p, %s1 -> %s\n}\n",
     {70, 2}},
    {"MoreTensorsThanOneKernelHolds", many_states(70), {100}},
    {"MoreReductionsThanOnePhaseHolds", many_reductions(40), {4, 5}},
    {"SumWithSymmetricProduct",
     "%p: f32[8,8] param, %g: f32[8,8] grad) {\n  %m = matmul %g, %g {tb, sym} : f32\n"
     "  %q = add %p, %m : f32\n  return %q -> %p\n}\n",
     {8, 8}},
    {"EmptySliceBesideSmallState",
     "%p: f32[8,4] param, %g: f32[8,4] grad, %s: f32[1,1] state \"s\") {\n"
     "  %k = add %s, 2 : f32\n  %z = slice %g {dim=0, begin=0, end=0} : f32\n  %w = mul %z, %k : f32\n"
     "  %t = sum %w {matrix} : f32\n  %q = mul %g, %k : f32\n  %q2 = add %q, %t : f32\n"
     "  return %q2 -> %p, %t -> %s\n}\n",
     {8, 4}},
    {"NegationThatRounds",
     "%p: f32[N] param, %g: f32[N] grad) {\n  %a = neg %g : bf16\n  %b = neg %a : f32\n"
     "  %q = add %p, %b : f32\n  return %q -> %p\n}\n",
     {257},
     ir::DType::F32,
     1e-3},
    {"ProductOfTransposedAddend",
     "%p: f32[9,9] param, %g: f32[9,9] grad) {\n  %gt = transpose %g : f32\n  %t = mul %gt, 2 : f32\n"
     "  %q = matmul %g, %g, %t, 1, 1 : f32\n  return %q -> %p\n}\n",
     {9, 9}},
    {"WiderFactorAroundProduct",
     "%p: f32[6,6] param, %g: f32[6,6] grad) {\n  %m = matmul %g, %g : f32\n  %s = mul %m, 2 : f64\n"
     "  %q = add %p, %s : f32\n  return %q -> %p\n}\n",
     {6, 6}},
    {"PlacementsInTheText",
     "%p: f32[N] param, %g: f32[N] grad) {\n  %a = sub %g, 2 : f32 @0.0\n  %b = sub %a, 3 : f32 @1.0\n"
     "  %c = sub %b, 2 : f32 @0.0\n  return %c -> %p\n}\n",
     {33}},
    {"SwappedStates",
     "%p: f32[N] param, %g: f32[N] grad, %a: f32[N] state \"a\", %b: f32[N] state \"b\") {\n"
     "  %x = add %a, %g : f32\n  %q = add %p, %b : f32\n  return %q -> %p, %b -> %a, %x -> %b\n}\n",
     {50}},
    {"SmallReductionOfSmallValue",
     "%p: f64[3,5,7] param, %g: f64[3,5,7] grad, %m: f64[3,5,7] state \"m\") {\n"
     "  %n = norm %m {matrix} : f64\n  %x = amax %n {cols} : f64\n  %a = add %p, %x : f64\n"
     "  %b = add %m, %g : f64\n  %c = add %b, %n : f64\n  return %a -> %p, %c -> %m\n}\n",
     {3, 5, 7},
     ir::DType::F64}};

class CornerRules : public testing::TestWithParam<CornerRule> {};

TEST_P(CornerRules, StrictAgreesBitForBitAndDefaultClosely) {
  const CornerRule& rule = GetParam();
  const ir::ParameterSpec spec{rule.shape, rule.dtype, rule.dtype, rule.dtype};
  const int64_t count = compiler::element_count(rule.shape);
  const Bytes param = random_tensor(rule.dtype, count, 1);
  const Bytes grad = random_tensor(rule.dtype, count, 2);
  for (ir::Mode mode : {ir::Mode::Strict, ir::Mode::Default}) {
    const auto expected = run_rule(text_of(rule), {}, spec, param, grad, {mode, "interp", 1, {}, 2});
    const auto actual = run_rule(text_of(rule), {}, spec, param, grad, {mode, "cpu", 3, {}, 2});
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    ASSERT_TRUE(actual.has_value()) << actual.error().message;
    if (mode == ir::Mode::Strict) {
      EXPECT_EQ(difference(rule.dtype, expected->param, actual->param), "");
      continue;
    }
    const auto want = to_doubles(rule.dtype, expected->param);
    const auto have = to_doubles(rule.dtype, actual->param);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(have[i], want[i], rule.tolerance * (100 + std::fabs(want[i]))) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Rule, CornerRules, testing::ValuesIn(kRules),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(CornerRule, GradientOfAnotherShapeIsRefused) {
  const auto result =
      run_rule("// stepfuse-ir v1\nrecipe @x(%p: f32[4] param, %g: f32[1000] grad) {\n  return %p -> %p\n}\n", {},
               {{4}}, Bytes(16), Bytes(16), {});
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("%g: the grad must have the shape of the param"), std::string::npos)
      << result.error().message;
}

TEST(CornerRule, ExtentsBeyondMemoryAreRefused) {
  const std::string text =
      "// stepfuse-ir v1\nrecipe @x(%p: f32[R,C] param, %g: f32[R,C] grad) {\n"
      "  %m = matmul %g, %g {tb} : f32\n  %q = matmul %m, %g : f32\n  return %q -> %p\n}\n";
  auto optimizer = runtime::Optimizer::create({});
  ASSERT_TRUE(optimizer.has_value());
  const auto group = optimizer->add_group(text, {});
  ASSERT_TRUE(group.has_value());
  const auto parameter = optimizer->add_parameter(*group, "w", {{int64_t{1} << 31, 1}});
  ASSERT_FALSE(parameter.has_value());
  EXPECT_EQ(parameter.error().code, StatusCode::InvalidData);
}

TEST(CornerRule, RuleWithoutGradientRunsEveryStep) {
  auto optimizer = runtime::Optimizer::create({});
  ASSERT_TRUE(optimizer.has_value());
  const auto group = optimizer->add_group(
      "// stepfuse-ir v1\nrecipe @decay(%p: f32[N] param) {\n  %q = mul %p, 0.5 : f32\n  return %q -> %p\n}\n", {});
  ASSERT_TRUE(group.has_value());
  const auto index = optimizer->add_parameter(*group, "w", {{2}});
  ASSERT_TRUE(index.has_value());
  ASSERT_TRUE(optimizer->prepare().has_value());
  float weights[2] = {8, -4};
  ASSERT_TRUE(optimizer->bind(*index, weights, nullptr).has_value());
  ASSERT_TRUE(optimizer->step().has_value());
  EXPECT_EQ(weights[0], 4);
  EXPECT_EQ(weights[1], -2);
}

TEST(CornerRule, MuonSurvivesGradientsWhoseSquaresOverflow) {
  const ir::ParameterSpec spec{{16, 24}};
  const Bytes param = random_tensor(ir::DType::F32, 16 * 24, 1);
  const Bytes grad = random_tensor(ir::DType::F32, 16 * 24, 2, 1e20);
  const auto result = run_rule("muon", {{"lr", "0.02"}}, spec, param, grad, {ir::Mode::Default, "cpu", 2, {}, 1});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  for (double value : to_doubles(ir::DType::F32, result->param)) EXPECT_TRUE(std::isfinite(value));
}

TEST(CornerRule, MuonOnF64Parameters) {
  const ir::ParameterSpec spec{{12, 20}, ir::DType::F64, ir::DType::F64, ir::DType::F64};
  const Bytes param = random_tensor(ir::DType::F64, 240, 1);
  const Bytes grad = random_tensor(ir::DType::F64, 240, 2);
  const auto result = run_rule("muon", {}, spec, param, grad, {ir::Mode::Default, "cpu", 2, {}, 1});
  EXPECT_TRUE(result.has_value()) << result.error().message;
}

#if defined(__x86_64__)
/// A trainer may run with denormals off; the step does not depend on it, and leaves it as it was.
TEST(CornerRule, CallersFloatModeDoesNotMatter) {
  const std::string text =
      "// stepfuse-ir v1\nrecipe @x(%p: f32[N] param, %g: f32[N] grad, %s: f32[1] state \"s\") {\n"
      "  %n = sum %g {all} : f32\n  %q = add %p, %n : f32\n  return %q -> %p, %n -> %s\n}\n";
  const Bytes param(8);
  const Bytes grad = from_doubles(ir::DType::F32, {0x1p-149, 0x1p-148});
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
  const auto result = run_rule(text, {}, {{2}}, param, grad, {ir::Mode::Strict, "cpu", 2, {}, 1});
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0x8040u, 0x8040u);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(to_doubles(ir::DType::F32, result->states[0])[0], 3 * 0x1p-149);
}
#endif

}  // namespace

}  // namespace stepfuse::tests
