// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"

namespace stepfuse::compiler {

/// Fills GroupPlan::names.
void name_values(GroupPlan& group);

/// Gives every step a short stable name: "pre" for kernels before the first product, "post" after the last, "mid"
/// between, "update" where there is no product; products, moves by their value's name. Repeated names get a number.
void name_roles(GroupPlan& group);

}  // namespace stepfuse::compiler
