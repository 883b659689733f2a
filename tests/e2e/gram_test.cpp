// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The Gram form of Newton-Schulz iterations on the CPU, against the exact interpreter and the standard form.
#include "tests/e2e/optimizer_run.h"
#include "tests/support/newton_schulz_rule.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace stepfuse::tests {
namespace {

using compiler::NsForm;
using ir::DType;

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

double norm(const std::vector<double>& a) { return distance(a, std::vector<double>(a.size())); }

struct Run {
  std::string rule;
  ir::OptionList options;
  std::vector<int64_t> shape;
  int steps = 1;
};

std::vector<double> result_of(const Run& run, const std::string& target, NsForm form, uint64_t seed) {
  const int64_t count = compiler::element_count(run.shape);
  const Bytes param(static_cast<size_t>(count) * 4);
  const auto result = run_rule(run.rule, run.options, {run.shape}, param, random_tensor(DType::F32, count, seed),
                               {ir::Mode::Default, target, 2, {}, run.steps, form});
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message);
  if (!result) return {};
  if (target == "cpu") {
    EXPECT_EQ(result->launched, result->planned.fused);
  }
  return to_doubles(DType::F32, result->param);
}

/// Goldens allow 5e-5 of the update for an iteration in f32.
constexpr double kF32Bound = 5e-5;

void expect_close(const Run& run, uint64_t seed) {
  SCOPED_TRACE(fmt::format("{} seed {}", fmt::join(run.shape, "x"), seed));
  const auto exact = result_of(run, "interp", NsForm::Auto, seed);
  const auto gram = result_of(run, "cpu", NsForm::Gram, seed);
  const auto standard = result_of(run, "cpu", NsForm::Standard, seed);
  ASSERT_FALSE(exact.empty() || gram.empty() || standard.empty());
  EXPECT_LE(distance(gram, exact), kF32Bound * norm(exact));
  EXPECT_LE(distance(gram, standard), kF32Bound * norm(exact));
  EXPECT_NE(gram, standard) << "both are one form";
}

TEST(GramForm, OfMuonIsCloseOnMatricesOfManyShapes) {
  std::mt19937_64 random(1);
  std::vector<std::vector<int64_t>> shapes = {{16, 16}, {64, 64}, {32, 128}, {128, 32}, {33, 57}, {57, 33}, {96, 200}};
  for (int i = 0; i < 8; ++i)
    shapes.push_back({8 + static_cast<int64_t>(random() % 90), 8 + static_cast<int64_t>(random() % 90)});
  for (const auto& shape : shapes)
    expect_close({"muon", {{"ns_dtype", "f32"}, {"lr", "0.1"}, {"weight_decay", "0"}}, shape, 2}, random());
}

TEST(GramForm, OfEveryCoefficientSetIsClose) {
  for (const auto& steps : {simple_coefficients(2), simple_coefficients(3), simple_coefficients(8),
                            quintic_coefficients(), polar_express_coefficients()})
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{48, 100}, {100, 48}})
      expect_close({newton_schulz_rule(steps, rows, columns, DType::F32), {}, {rows, columns}}, 5);
}

TEST(GramForm, OfABatchInOneRuleIsClose) {
  expect_close({newton_schulz_rule(simple_coefficients(5), 24, 72, DType::F32, 3), {}, {3, 24, 72}}, 3);
  expect_close({newton_schulz_rule(simple_coefficients(5), 72, 24, DType::F32, 3), {}, {3, 72, 24}}, 3);
}

/// A zero gradient stays zero: nothing but a I is on the diagonal of Q, and X is 0.
TEST(GramForm, OfNothingIsNothing) {
  const Bytes zeros(24 * 72 * 4);
  const auto result = run_rule("muon", {{"weight_decay", "0"}}, {{24, 72}}, zeros, zeros,
                               {ir::Mode::Default, "cpu", 2, {}, 1, NsForm::Gram});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(difference(DType::F32, result->param, zeros), "");
}

/// Matrices of one shape run as a batch, and each gets what it would get alone.
TEST(GramForm, OfABatchOfParametersIsThatOfEach) {
  constexpr int kMembers = 3;
  runtime::OptimizerSettings settings;
  settings.threads = 2;
  settings.runner.ns_form = NsForm::Gram;
  auto optimizer = *runtime::Optimizer::create(settings);
  const uint32_t group = *optimizer.add_group("muon", {{"weight_decay", "0"}});
  const ir::ParameterSpec spec{{40, 96}};
  std::vector<Bytes> params(kMembers, Bytes(40 * 96 * 4)), grads;
  for (uint32_t i = 0; i < kMembers; ++i) {
    ASSERT_EQ(*optimizer.add_parameter(group, fmt::format("w{}", i), spec), i);
    grads.push_back(random_tensor(DType::F32, 40 * 96, i));
  }
  ASSERT_TRUE(optimizer.prepare().has_value());
  EXPECT_EQ(optimizer.counts().fused, compiler::gram_newton_schulz_launches(5, 1, 1));
  for (uint32_t i = 0; i < kMembers; ++i) ASSERT_TRUE(optimizer.bind(i, params[i].data(), grads[i].data()).has_value());
  ASSERT_TRUE(optimizer.step().has_value());
  for (uint32_t i = 0; i < kMembers; ++i) {
    const auto alone = run_rule("muon", {{"weight_decay", "0"}}, spec, Bytes(40 * 96 * 4), grads[i],
                                {ir::Mode::Default, "cpu", 2, {}, 1, NsForm::Gram});
    ASSERT_TRUE(alone.has_value());
    EXPECT_EQ(difference(DType::F32, alone->param, params[i]), "") << "parameter " << i;
  }
}

TEST(GramForm, AFormThatNothingHearsIsAnError) {
  const Bytes zeros(16 * 4);
  for (const char* target : {"interp", "cpu"}) {
    const auto result =
        run_rule("adamw", {}, {{16}}, zeros, zeros, {ir::Mode::Default, target, 1, {}, 1, NsForm::Gram});
    ASSERT_FALSE(result.has_value());
    EXPECT_NE(result.error().message.find("ns_form=gram has no effect"), std::string::npos) << result.error().message;
  }
}

}  // namespace
}  // namespace stepfuse::tests
