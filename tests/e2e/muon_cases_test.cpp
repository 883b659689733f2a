// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The reference cases about Muon, each named after its id: known answers that a wrong but plausible step would miss.
#include "tests/e2e/optimizer_run.h"

#include <numbers>
#include <tuple>

#include <gtest/gtest.h>

namespace stepfuse::tests {

namespace {

using ir::DType;
using ir::OptionList;
using Values = std::vector<double>;
using Shape = std::vector<int64_t>;

/// Options under which the gradient reaches the iteration untouched and -lr * factor * X is all that reaches W.
OptionList raw_options(OptionList more = {}) {
  OptionList options{{"lr", "1"}, {"weight_decay", "0"}, {"momentum", "0"}, {"nesterov", "false"}, {"ns_dtype", "f32"}};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

class MuonCases : public testing::TestWithParam<std::tuple<std::string, ir::Mode>> {
 protected:
  bool strict() const { return std::get<1>(GetParam()) == ir::Mode::Strict; }
  RunSettings settings() const { return {std::get<1>(GetParam()), std::get<0>(GetParam()), 2, {}, 1}; }

  RunResult run(const OptionList& options, const Shape& shape, const Bytes& param, const Bytes& grad) const {
    auto result = run_rule("muon", options, {shape}, param, grad, settings());
    EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
    return result ? std::move(*result) : RunResult{};
  }

  Values step(const OptionList& options, const Shape& shape, const Values& param, const Values& grad) const {
    const Bytes result = run(options, shape, from_doubles(DType::F32, param), from_doubles(DType::F32, grad)).param;
    return to_doubles(DType::F32, result);
  }
};

Values zeros(const Shape& shape) { return Values(static_cast<size_t>(shape[0] * shape[1])); }

void expect_near(const Values& actual, const Values& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}

/// DeepSpeed issue 8441: a plain Muon configuration ran SGD, which would give diag(0.7, 0.6) here, and the loss still
/// went down. W = I, gradient diag(3, 4), lr 0.1, no decay: the direction is diag(0.722876, 1.119204).
TEST_P(MuonCases, A01_FiveIterationsNotSgd) {
  const OptionList options{{"lr", "0.1"}, {"weight_decay", "0"}, {"ns_dtype", "f32"}};
  const RunResult result =
      run(options, {2, 2}, from_doubles(DType::F32, {1, 0, 0, 1}), from_doubles(DType::F32, {3, 0, 0, 4}));
  expect_near(to_doubles(DType::F32, result.param), {0.9277124, 0, 0, 0.8880796}, 1e-5);
  EXPECT_EQ(result.launched.gemms, 15) << "three products in each of five iterations";
}

/// PyTorch pull request 160213: torch divides by max(norm, eps), others by norm + eps. With eps = 1e-7 the clamp gives
/// 0.696436 at a norm of 1e-7 and 0.712120 at 1e-8; the sum would give 0.765439 and 0.691936.
TEST_P(MuonCases, A05_TinyGradientIsClampedNotShifted) {
  const struct {
    double norm, direction, tolerance;
  } cases[] = {{1e-7, 0.696436, 2e-6}, {1e-8, 0.712120, 2e-6}, {1e-3, 0.6964, 1e-3}};
  for (const auto& [norm, direction, tolerance] : cases) {
    SCOPED_TRACE(norm);
    expect_near(step(raw_options(), {1, 1}, {0}, {norm}), {-direction}, tolerance);
    // Rank one, u v^T with u = (0.6, 0.8) and v = (2, -1, 2) / 3.
    Values grad, expected;
    for (const double u : {0.6, 0.8})
      for (const double v : {2.0 / 3, -1.0 / 3, 2.0 / 3}) {
        grad.push_back(norm * u * v);
        expected.push_back(-direction * u * v);
      }
    expect_near(step(raw_options(), {2, 3}, zeros({2, 3}), grad), expected, tolerance);
  }
}

Values transposed(const Values& values, int64_t rows, int64_t cols) {
  Values out(values.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      out[static_cast<size_t>(c * rows + r)] = values[static_cast<size_t>(r * cols + c)];
  return out;
}

/// PyTorch pull request 194181: the Gram matrix of a tall matrix is taken on its short side, which makes the step that
/// of the transposed matrix. The factor of "match_rms_adamw" is the same for both.
TEST_P(MuonCases, A08_TallIsTransposedWide) {
  const OptionList options = raw_options({{"adjust_lr_fn", "match_rms_adamw"}});
  const double factor = 0.2 * std::numbers::sqrt3;
  const Values tall = step(options, {3, 2}, zeros({3, 2}), {3, 0, 0, 4, 0, 0});
  expect_near(tall, {-0.722876 * factor, 0, 0, -1.119204 * factor, 0, 0}, 1e-6);
  const Values wide = step(options, {2, 3}, zeros({2, 3}), {3, 0, 0, 0, 4, 0});
  expect_near(wide, transposed(tall, 3, 2), strict() ? 0 : 1e-6);
}

/// The same on random matrices: bit for bit in strict, within the rounding of f32 in default.
TEST_P(MuonCases, A08_TallIsTransposedWideInEveryShape) {
  const OptionList options{{"ns_dtype", "f32"}, {"lr", "0.5"}, {"adjust_lr_fn", "match_rms_adamw"}};
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{3, 2}, {17, 5}, {65, 64}, {130, 33}, {300, 7}}) {
    SCOPED_TRACE(fmt::format("{} x {}", rows, cols));
    const auto seed = static_cast<uint64_t>(rows);
    const Values param = to_doubles(DType::F32, random_tensor(DType::F32, rows * cols, seed));
    const Values grad = to_doubles(DType::F32, random_tensor(DType::F32, rows * cols, seed + 1));
    const Values tall = step(options, {rows, cols}, param, grad);
    const Values wide = step(options, {cols, rows}, transposed(param, rows, cols), transposed(grad, rows, cols));
    expect_near(transposed(tall, rows, cols), wide, strict() ? 0 : 1e-5);
  }
}

TEST(MuonRule, A08_GramMatrixIsOnTheShortSide) {
  auto optimizer = runtime::Optimizer::create({});
  ASSERT_TRUE(optimizer.has_value());
  const uint32_t group = optimizer->add_group("muon", {}).value();
  ASSERT_TRUE(optimizer->add_parameter(group, "w", {{3, 2}}).has_value());
  const ir::Graph& rule = optimizer->planned()[0].rule;
  int grams = 0;
  for (uint32_t i = 0; i < rule.size(); ++i) {
    if (rule.value_name(ir::ValueId{i}).substr(0, 4) != "gram") continue;
    ++grams;
    EXPECT_EQ(rule.node(ir::ValueId{i}).type.shape.from_end(0), ir::Extent::of(2));
    EXPECT_EQ(rule.node(ir::ValueId{i}).type.shape.from_end(1), ir::Extent::of(2));
  }
  EXPECT_EQ(grams, 10) << "a Gram matrix and its square in each of five iterations";
}

/// pytorch_optimizer issue 371 and optax pull request 1435: two rules at once, or the wrong one. Torch's rules on 8 x 2
/// are 2.0 (original), 0.565685 (match_rms_adamw), 2.0 (spectral_unclamped); on 2 x 8 they are 1.0, 0.565685 and 0.5.
/// Their product 2.0 * 0.565685 is wrong.
TEST_P(MuonCases, A12_ExactlyOneScaleRule) {
  const Values tall_grad = to_doubles(DType::F32, random_tensor(DType::F32, 16, 12));
  const Values wide_grad = transposed(tall_grad, 8, 2);
  const Values direction = step(raw_options(), {2, 8}, zeros({2, 8}), wide_grad);  // its factor is 1
  const struct {
    const char* rule;
    double tall, wide;
  } cases[] = {{"original", 2.0, 1.0}, {"match_rms_adamw", 0.565685, 0.565685}, {"spectral_unclamped", 2.0, 0.5}};
  for (const auto& [rule, tall, wide] : cases) {
    SCOPED_TRACE(rule);
    const OptionList options = raw_options({{"adjust_lr_fn", rule}});
    Values expected_wide = direction;
    for (double& value : expected_wide) value *= wide;
    Values expected_tall = transposed(direction, 2, 8);
    for (double& value : expected_tall) value *= tall;
    expect_near(step(options, {2, 8}, zeros({2, 8}), wide_grad), expected_wide, 2e-6);
    expect_near(step(options, {8, 2}, zeros({8, 2}), tall_grad), expected_tall, 4e-6);
  }
}

/// Levanter pull request 1147: W = I, gradient I, lr 0.1, decay 0.1 gives 0.8791889 (original) and 0.9586579
/// (match_rms_adamw) on the diagonal, with nesterov or without; a decay that uses the adjusted lr gives 0.9658295.
TEST_P(MuonCases, A13_DecayUsesTheUnadjustedLearningRate) {
  for (const char* nesterov : {"true", "false"}) {
    SCOPED_TRACE(nesterov);
    const auto diagonal = [&](const char* rule, const char* ns_dtype) {
      const OptionList options{{"lr", "0.1"},
                               {"weight_decay", "0.1"},
                               {"nesterov", nesterov},
                               {"adjust_lr_fn", rule},
                               {"ns_dtype", ns_dtype}};
      return step(options, {2, 2}, {1, 0, 0, 1}, {1, 0, 0, 1});
    };
    expect_near(diagonal("original", "f32"), {0.8791889, 0, 0, 0.8791889}, 1e-6);
    expect_near(diagonal("match_rms_adamw", "f32"), {0.9586579, 0, 0, 0.9586579}, 1e-6);
    // The bf16 iteration is off by a few of its own roundings, 2^-9 each, times the factor on the direction.
    expect_near(diagonal("original", "bf16"), {0.8791889, 0, 0, 0.8791889}, 2e-3);
    expect_near(diagonal("match_rms_adamw", "bf16"), {0.9586579, 0, 0, 0.9586579}, 6e-4);
  }
}

/// Moonlight issue 22: the default polynomial ends in about [0.68, 1.21], so diag(0.722876, 1.119204) is right; a
/// convergent triple reaches 1 within 1e-3 for every singular value of at least 0.1 of the norm.
TEST_P(MuonCases, A18_DefaultCoefficientsDoNotConvergeToOne) {
  expect_near(step(raw_options(), {2, 2}, zeros({2, 2}), {3, 0, 0, 4}), {-0.722876, 0, 0, -1.119204}, 1e-5);
  const OptionList convergent = raw_options({{"ns_coefficients", "2,-1.5,0.5"}, {"ns_steps", "12"}});
  expect_near(step(convergent, {2, 2}, zeros({2, 2}), {3, 0, 0, 4}), {-1, 0, 0, -1}, 1e-3);
  expect_near(step(convergent, {2, 2}, zeros({2, 2}), {1, 0, 0, 0.1006}), {-1, 0, 0, -1}, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, MuonCases,
                         testing::Combine(testing::Values("interp", "cpu"),
                                          testing::Values(ir::Mode::Strict, ir::Mode::Default)),
                         [](const auto& p) {
                           return std::get<0>(p.param) +
                                  (std::get<1>(p.param) == ir::Mode::Strict ? "_strict" : "_default");
                         });

}  // namespace

}  // namespace stepfuse::tests
