// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/optimizers/decay.h"
#include "ir/optimizers/recipe.h"

#include <string_view>

namespace stepfuse::ir {

// What the optimizers of emerging-optimizers have in common.

inline constexpr std::string_view kEmerging = "emerging-optimizers 0.3.0";

/// What a product may do with f32 operands: "highest", "high" or "medium".
OptionInfo fp32_matmul_prec_option(std::string_view name, std::string_view default_text);

/// Recipes for matrices refuse everything else.
Outcome check_matrix(std::string_view recipe, const ParameterSpec& spec);

}  // namespace stepfuse::ir
