// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"

#include <string>
#include <vector>

namespace stepfuse::compiler {

/// Runs a group's steps on paper, knowing nothing of how they were planned: which value each slot holds at each moment.
/// Reports a read of a slot that holds another value (its old one was overwritten), scratch read before it is written,
/// two living buffers in one lane, an output that does not end up in its target, and launches that miss a member.
std::vector<std::string> verify_plan(const StepPlan& plan);

/// Steps that would make the host wait for the device. Empty for every kind of step there is.
std::vector<std::string> host_syncs(const StepPlan& plan);

}  // namespace stepfuse::compiler
