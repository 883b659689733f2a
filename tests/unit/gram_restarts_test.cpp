// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/gram_restarts.h"

#include "tests/support/newton_schulz_rule.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::compiler {
namespace {

using Steps = std::vector<NewtonSchulzCoefficients>;
using testing::ElementsAre;
using testing::IsEmpty;

Steps repeated(const NewtonSchulzCoefficients& step, int count) { return Steps(static_cast<size_t>(count), step); }

/// What gram-newton-schulz publishes for its two sets of five steps, and uses by default: one restart, before step 2.
TEST(GramRestarts, OfThePublishedSetsAreThePublishedOnes) {
  for (const Steps& steps : {tests::polar_express_coefficients(), tests::quintic_coefficients()}) {
    EXPECT_THAT(best_restarts(steps, 1, kSpuriousEigenvalue).before, ElementsAre(2));
    const auto stable = stable_restarts(steps);
    ASSERT_TRUE(stable.has_value());
    EXPECT_THAT(stable->before, ElementsAre(2));
    EXPECT_GT(stable->growth, 31);
    EXPECT_LT(stable->growth, 33);
  }
}

TEST(GramRestarts, FewStepsNeedNoneAndManyNeedMore) {
  EXPECT_THAT(stable_restarts(tests::simple_coefficients(2))->before, IsEmpty());
  EXPECT_THAT(stable_restarts(tests::simple_coefficients(3))->before, IsEmpty());
  EXPECT_THAT(stable_restarts(tests::simple_coefficients(5))->before, ElementsAre(2));
  EXPECT_THAT(stable_restarts(tests::simple_coefficients(8))->before, ElementsAre(2, 4, 6));
}

/// Each start lets the small singular values grow by the product of the a that follow it.
TEST(GramRestarts, GrowthIsTheLargestPolynomial) {
  const Steps doubling = repeated({2, -1.5, 0.5}, 4);
  EXPECT_NEAR(gram_growth(doubling, {}, 0), 16, 1e-6);
  EXPECT_NEAR(gram_growth(doubling, std::array{2}, 0), 4, 1e-6);
  EXPECT_NEAR(gram_growth(doubling, std::array{1, 2, 3}, 0), 2, 1e-6);
  // An eigenvalue below 0 grows away from it.
  EXPECT_GT(gram_growth(doubling, {}, -1e-2), 20);
}

TEST(GramRestarts, TheBestOfAllPositionsIsFound) {
  const Steps steps = tests::simple_coefficients(6);
  const GramRestarts best = best_restarts(steps, 2, kSpuriousEigenvalue);
  for (int i = 1; i < 6; ++i)
    for (int j = i + 1; j < 6; ++j)
      EXPECT_LE(best.growth, gram_growth(steps, std::array{i, j}, kSpuriousEigenvalue)) << i << ", " << j;
  EXPECT_DOUBLE_EQ(best.growth, gram_growth(steps, best.before, kSpuriousEigenvalue));
}

TEST(GramRestarts, WhatGrowsBetweenAnyTwoStartsIsRefused) {
  // A single step of this one exceeds the bound.
  EXPECT_FALSE(stable_restarts(repeated({100, -150, 51}, 5)).has_value());
  EXPECT_TRUE(std::isinf(gram_growth(repeated({1e200, 0, 1}, 5), {}, kSpuriousEigenvalue)));
  EXPECT_FALSE(stable_restarts(repeated({2, -1.5, 0.5}, 11)).has_value()) << "too many steps to search";
  EXPECT_TRUE(stable_restarts(repeated({2, -1.5, 0.5}, 10)).has_value());
}

}  // namespace
}  // namespace stepfuse::compiler
