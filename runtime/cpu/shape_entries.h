// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cpu/prepared.h"

#include <vector>

namespace stepfuse::runtime {

/// Keeps one shape entry per group and distinct parameter shape of a prepared plan in the cache: the kernels it uses,
/// the launches, the products and who computes them, the workspace. An entry that is there and says the same is left
/// alone.
void record_shape_entries(const compiler::StepPlan& plan, const std::vector<compiler::PlannedParameter>& parameters,
                          const CpuTarget& target, const std::vector<PreparedGroup>& groups, const Context& context);

}  // namespace stepfuse::runtime
