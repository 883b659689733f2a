// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"

namespace stepfuse::compiler {

/// Scratch that the batch which starts with this launch needs.
int64_t batch_workspace(const StepPlan& plan, const Launch& first, const std::vector<PlannedParameter>& parameters);

/// Spreads the plan's batches over at most TargetTraits::branches branches, the heaviest first, each to the branch with
/// the least work so far. Fewer branches where their scratch together would exceed `most_bytes`. Sets the plan's
/// branches and workspace.
void place_branches(StepPlan& plan, const std::vector<PlannedParameter>& parameters, int64_t branches,
                    int64_t most_bytes);

}  // namespace stepfuse::compiler
