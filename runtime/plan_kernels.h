// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a plan asks the cache for on its target, whether or not this host can run it: for compiling ahead of time, and
/// for saying what is missing.

#include "compiler/plan.h"
#include "runtime/cache/shape_entry.h"
#include "runtime/context.h"
#include "runtime/kernel_cache.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// Every kernel of the plan on plan.target, each key once, in order of first use. The context outlives them. The
/// interpreter has none. Opens no compiler.
Result<KernelMakers> plan_kernels(const compiler::StepPlan& plan, const Context& context);

/// The kernel's name, and which of its variants it is, for readers: "stepfuse_adamw_update_f32, generic".
std::string kernel_label(const KernelMaker& maker);

/// A shape entry as it can be known without running the target: it leaves open who computes the products.
struct PlanShape {
  GroupShape shape;
  std::string rule;       // its name
  std::string parameter;  // the first of this shape
  KeyFields fields;
  Key key;
  Entry entry;
};
/// One per group and distinct shape.
Result<std::vector<PlanShape>> plan_shapes(const compiler::StepPlan& plan,
                                           const std::vector<compiler::PlannedParameter>& parameters,
                                           const Context& context);

/// Brings them to the cache, where they are not there already.
Outcome record_plan_shapes(const compiler::StepPlan& plan, const std::vector<compiler::PlannedParameter>& parameters,
                           const Context& context);

/// The entry as it goes into a bundle: without time, place and duration of its making.
Entry without_provenance(Entry entry);

/// Why a kernel entry of the live folder with these fields and this metadata is not what this process would compile.
std::optional<std::string> made_otherwise(const KeyFields& fields, const std::string& metadata,
                                          std::string_view plugin_dir);

/// Why a whole entry cannot be used; empty if it can, or if this build has not the backend to tell.
std::string problem_with(const Entry& entry);

}  // namespace stepfuse::runtime
