// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cpu/memory_view.h"
#include "runtime/cpu/prepared.h"

namespace stepfuse::runtime {

/// The number behind a factor, now.
double factor_value(const compiler::GroupPlan& group, const MemberMemory& member, const Factor& factor);

/// Runs an AddDiag, Concat or Copy step for one member.
void run_move(const compiler::GroupPlan& group, compiler::StepKind kind, const codegen::LoweredMove& move,
              const MemberMemory& member);

}  // namespace stepfuse::runtime
