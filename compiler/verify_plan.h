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

/// The launches before which the host would have to wait for the device: products whose alpha or beta is computed on
/// the device, on a target that takes such factors from the host only. An empty list is what a plan should have.
std::vector<std::string> host_syncs(const StepPlan& plan);

}  // namespace stepfuse::compiler
