// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <span>
#include <string_view>
#include <vector>

namespace stepfuse::ir {

/// One Newton-Schulz iteration as it acts on a singular value: p(s) = a s + b s^3 + c s^5.
struct Coefficients {
  double a, b, c;
};

/// A published list of them.
struct CoefficientSet {
  std::string_view name;
  std::vector<Coefficients> triples;
  bool cycles = true;  // after the last triple the first one follows; else the last one again
  size_t steps = 0;    // the only step count that it is made for; 0: any
  std::string_view source;
};

std::span<const CoefficientSet> coefficient_sets();
/// A name of the table, which is not checked.
const CoefficientSet& coefficient_set(std::string_view name);
/// The triples of so many steps.
std::vector<Coefficients> triples_of(const CoefficientSet& set, size_t steps);
/// The polynomials of s / factor instead of s: what leaves room for singular values up to `factor`.
std::vector<Coefficients> with_safety(std::vector<Coefficients> triples, double factor);

/// Whether so many steps of a set do what they are for. Over singular values in [0.05, 0.7] of a matrix of norm 1 the
/// smallest response grows from step to step until it is near 1; where it has fallen below half of what fewer steps
/// gave, or is negative, the update is small or points the wrong way. The error names step counts that are safe.
Outcome check_response(std::string_view subject, const CoefficientSet& set, size_t steps);

}  // namespace stepfuse::ir
