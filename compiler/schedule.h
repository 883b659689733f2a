// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"

namespace stepfuse::compiler {

/// Turns the placed graph of `group` into steps in an order that respects data, chooses where every value lives
/// (in place over the parameter or state it replaces wherever nobody needs the old value any more, else scratch and a
/// copy at the end) and how long it lives. Fills steps, slots and buffers; lanes come from reuse_memory().
void schedule(GroupPlan& group);

/// Whether a value must exist in memory: read by another step or phase or through a view, an output, or the result of a
/// reduction, product or move.
std::vector<bool> materialised_values(const GroupPlan& group);

/// Which step and phase makes each value; {-1, 0} for inputs, views and scalars.
std::vector<Moment> defining_moments(const GroupPlan& group);

/// The full domain of a phase: its values' shapes broadcast together, reductions by their operands.
ir::Shape phase_domain(const ir::Graph& graph, const std::vector<ir::ValueId>& nodes);

}  // namespace stepfuse::compiler
