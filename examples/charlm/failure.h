// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace charlm {

/// The exit codes of the program: those of the stepfuse command.
enum class ExitCode : int { Success = 0, CheckFailed = 1, Usage = 2, Missing = 3 };

/// Something the user can mend: what is wrong, how to mend it, and the exit code to end with.
class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& message, std::string hint)
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}
  ExitCode code() const noexcept { return code_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

}  // namespace charlm
