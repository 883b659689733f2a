// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace stepfuse::compiler {

/// a, b, c of one step.
using NewtonSchulzCoefficients = std::array<double, 3>;

/// Where the Gram form of an iteration starts anew from X, as step numbers, and how far its polynomial Q of the Gram
/// matrix grows between two starts.
struct GramRestarts {
  std::vector<int> before;  // ascending, none is 0
  double growth = 0;
};

/// The eigenvalue that rounding gives a Gram matrix where it should have 0, in 16-bit types.
inline constexpr double kSpuriousEigenvalue = -4e-4;
/// Beyond it the entries of Q are so large that what is left of X in Q X is rounding. The published positions for five
/// steps, [2], reach 31 to 45.
inline constexpr double kMostGrowth = 64;

/// More steps than any coefficient set has; the search takes time exponential in them.
inline constexpr size_t kMostGramSteps = 10;

/// The largest |Q| that the Gram form with these restarts meets for singular values from 1 down to 1e-10 and a Gram
/// matrix that is off by `spurious`; infinite where it overflows.
double gram_growth(std::span<const NewtonSchulzCoefficients> steps, std::span<const int> before, double spurious);

/// The positions of `count` restarts with the least growth, the earliest of equal ones.
GramRestarts best_restarts(std::span<const NewtonSchulzCoefficients> steps, int count, double spurious);

/// The fewest restarts, at their best positions, that keep the growth within kMostGrowth; nothing where none do, or for
/// more than kMostGramSteps steps.
std::optional<GramRestarts> stable_restarts(std::span<const NewtonSchulzCoefficients> steps);

}  // namespace stepfuse::compiler
