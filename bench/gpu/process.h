// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stepfuse::gpu_check {

struct Finished {
  int exit_code = -1;  // -1: ended by a signal
  std::string output;  // stdout
  std::string errors;  // stderr
};

/// Runs a program with exactly these arguments, through no shell, and waits for it. `variables` come over the
/// environment of this process. Throws where the program cannot be started.
Finished run_program(const std::vector<std::string>& command,
                     const std::vector<std::pair<std::string, std::string>>& variables = {});

/// The path of this program.
std::string own_path();

/// The last lines of a text, for a message.
std::string tail_of(const std::string& text, size_t bytes = 2000);

}  // namespace stepfuse::gpu_check
