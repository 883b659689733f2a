// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"
#include "runtime/context.h"

#include <string>
#include <vector>

namespace stepfuse::runtime {

/// Writes what the setting `dump` names into dump_dir, under names that stay from run to run:
///   ir    <rule>.<hash>.naive.sfir and .fused.sfir of each group; the hash is that of the naive text
///   plan  plan.txt
///   llvm  <kernel>.ll, which override_dir takes as it is
///   asm   <kernel>.s
///   cuda  <kernel>.aligned.cu and .generic.cu, which override_dir takes as they are; ptx: the same as .ptx
/// The interpreter's plan is plan.interp.txt and .interp.fused.sfir. Kernels that share a name but not their text get
/// <kernel>.<hash>. Kernels are compiled for the dump, whether a cache has them or not. What cannot be written is one
/// warning, never a failure.
void dump_plan(const Context& context, const compiler::StepPlan& plan,
               const std::vector<compiler::PlannedParameter>& parameters);

/// The same for the stages given, into `folder`, which exists.
Outcome write_dump(const Context& context, const compiler::StepPlan& plan,
                   const std::vector<compiler::PlannedParameter>& parameters, const std::vector<std::string>& stages,
                   const std::string& folder);

/// "adamw.3f2a9c01": a rule's file name, from its naive graph.
std::string rule_file_name(const ir::Graph& naive);

}  // namespace stepfuse::runtime
