// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::tools {

/// What stands on the command line, before any of it is believed. Options go by their long name without dashes; a flag
/// has the value "".
struct Arguments {
  std::string command;
  std::vector<std::string> positionals;
  std::map<std::string, std::vector<std::string>, std::less<>> values;

  bool has(std::string_view option) const { return values.find(option) != values.end(); }
  std::string get(std::string_view option, std::string_view fallback = {}) const;
  std::vector<std::string> all(std::string_view option) const;
};

struct CommandLine {
  Arguments arguments;
  std::optional<std::string> answer;  // of --help and --version: print this and leave
};

/// Reads the command line by the table of options. Unknown commands and options (with the nearest name), options
/// without their value or given twice, and whatever a later version brings are usage errors.
Result<CommandLine> parse_command_line(int argc, const char* const* argv);

/// The error for something that the design has and this version has not.
tl::unexpected<Status> not_yet(std::string_view what);

}  // namespace stepfuse::tools
