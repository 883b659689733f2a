// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Case E13: one AdamW step on random numbers, and how far default mode may be from strict.

#include "ir/graph.h"

#include <string>
#include <vector>

namespace stepfuse::tests {

struct AdamWData {
  std::vector<float> p, g, m, v;
};

/// 100,000 elements.
AdamWData random_adamw();

/// The fifth step on any target.
AdamWData adamw_step(AdamWData data, const std::string& target, ir::Mode mode,
                     const std::vector<std::string>& disabled = {});

/// Each operation may be off by two units in the last place of its largest operand (not of its result: where operands
/// cancel, an fma is far more exact than the result's unit). Through the chain of the parameter's update:
///   term = step_size * m / (sqrt(v) / c + eps), p' = p_decayed - term
/// the error of m passes on with the factor step_size / denominator, the relative one of v is halved by the root, and
/// each of root, division, addition, product and quotient adds two units.
void expect_within_two_ulp(const AdamWData& before, const AdamWData& fast, const AdamWData& typed);

}  // namespace stepfuse::tests
