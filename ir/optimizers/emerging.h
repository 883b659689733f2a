// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/builder.h"
#include "ir/optimizers/recipe.h"

#include <string_view>

namespace stepfuse::ir {

// What the optimizers of emerging-optimizers have in common.

inline constexpr std::string_view kEmerging = "emerging-optimizers 0.3.0";

OptionInfo weight_decay_method_option();
/// What a product may do with f32 operands: "highest", "high" or "medium".
OptionInfo fp32_matmul_prec_option(std::string_view name, std::string_view default_text);

/// Recipes for matrices refuse everything else.
Outcome check_matrix(std::string_view recipe, const ParameterSpec& spec);

struct Decayed {
  ValueId param, grad;
};
/// WeightDecayMixin: decoupled p - wd lr p, independent p - wd p, palm p - wd lr^2 p, l2 g + wd p. A decay of 0 touches
/// nothing, whatever p holds.
Decayed apply_weight_decay(Builder& b, std::string_view method, ValueId p, ValueId g, ValueId lr, ValueId weight_decay);

}  // namespace stepfuse::ir
