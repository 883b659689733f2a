// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/gram_restarts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stepfuse::compiler {

namespace {

constexpr int kSamples = 500;      // singular values, evenly spaced by logarithm
constexpr double kDecades = 10.0;  // from 1 downwards

/// The largest |Q| for one singular value.
double growth_of(double s, std::span<const NewtonSchulzCoefficients> steps, std::span<const int> before,
                 double spurious) {
  double q = 1;
  double r = s * s + spurious;
  double largest = 0;
  for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
    if (std::find(before.begin(), before.end(), i) != before.end()) {
      s *= q;
      r = s * s + spurious;
      q = 1;
    }
    const auto [a, b, c] = steps[static_cast<size_t>(i)];
    const double z = a + r * (b + r * c);
    q *= z;
    r *= z * z;
    if (!std::isfinite(q) || !std::isfinite(r)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(q));
  }
  return largest;
}

/// The next ascending choice among 1 .. last, in lexicographic order.
bool advance(std::vector<int>& choice, int last) {
  for (size_t k = choice.size(); k-- > 0;) {
    if (choice[k] == last - static_cast<int>(choice.size() - 1 - k)) continue;
    ++choice[k];
    for (size_t j = k + 1; j < choice.size(); ++j) choice[j] = choice[j - 1] + 1;
    return true;
  }
  return false;
}

}  // namespace

double gram_growth(std::span<const NewtonSchulzCoefficients> steps, std::span<const int> before, double spurious) {
  double largest = 0;
  for (int i = 0; i < kSamples && std::isfinite(largest); ++i)
    largest = std::max(largest, growth_of(std::pow(10.0, -kDecades * i / (kSamples - 1)), steps, before, spurious));
  return largest;
}

GramRestarts best_restarts(std::span<const NewtonSchulzCoefficients> steps, int count, double spurious) {
  std::vector<int> choice;
  for (int i = 1; i <= count; ++i) choice.push_back(i);
  GramRestarts best{choice, std::numeric_limits<double>::infinity()};
  do {
    const double growth = gram_growth(steps, choice, spurious);
    if (growth < best.growth) best = {choice, growth};
  } while (advance(choice, static_cast<int>(steps.size()) - 1));
  return best;
}

std::optional<GramRestarts> stable_restarts(std::span<const NewtonSchulzCoefficients> steps) {
  if (steps.size() > kMostGramSteps) return std::nullopt;
  for (int count = 0; count < static_cast<int>(steps.size()); ++count)
    if (GramRestarts best = best_restarts(steps, count, kSpuriousEigenvalue); best.growth <= kMostGrowth) return best;
  return std::nullopt;
}

}  // namespace stepfuse::compiler
