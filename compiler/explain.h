// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/counts.h"
#include "compiler/plan.h"

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace stepfuse::compiler {

/// What the backend adds: one line for each thing it chose, such as the library behind a product.
using BackendNotes = std::vector<Decision>;

/// {schema, target, mode, summary: {naive, peer_eager, fused}, groups[], decisions[]}; see docs/explain.md. Stable
/// under `schema` 1: fields are added, never changed.
nlohmann::ordered_json explain_json(const StepPlan& plan, const std::vector<PlannedParameter>& parameters,
                                    const BackendNotes& notes);

/// The same for people.
std::string explain_text(const StepPlan& plan, const std::vector<PlannedParameter>& parameters,
                         const BackendNotes& notes);

}  // namespace stepfuse::compiler
