// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"
#include "runtime/context.h"

#include <functional>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// What a report of an internal failure is made from.
struct ReproInput {
  const Context& context;
  const std::vector<compiler::PlannedParameter>& parameters;
  const compiler::StepPlan& plan;  // without groups where the failure came first
  const compiler::PlanOptions& options;
};

/// Writes <dump_dir>/stepfuse-repro-<time>-<process>/ (0700): the rules, the plan, the kernels as text and as LLVM IR
/// or CUDA C++ as far as they can be made, all settings with their origins, versions, and a README with the command
/// that replays it. No tensor's contents are in it. Returns `error` with the folder named, or with the reason why there
/// is none.
Status write_repro(const ReproInput& input, Status error);

/// Runs `work`; an internal error of it, returned or thrown, goes through write_repro().
Outcome with_repro(const ReproInput& input, const std::function<Outcome()>& work);

}  // namespace stepfuse::runtime
