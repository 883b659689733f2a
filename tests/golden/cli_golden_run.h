// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/golden/golden_cases.h"

#include <string>
#include <vector>

namespace stepfuse::golden {

/// Cases of one gradient for all steps, as the command takes it.
const std::vector<std::string>& command_cases();

/// Runs a case through `stepfuse run`, from files to files, and expects the peer's parameters and states.
void expect_command_agrees(const std::string& name, const std::string& target, Numerics numerics);

}  // namespace stepfuse::golden
