// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// The stepfuse command. Exit codes: 0 ok, 1 failed, 2 usage, 3 environment (see exit_code()).
#include "tools/cli_options.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/text_file.h"

#include <array>
#include <cstdio>
#include <exception>
#include <new>

namespace stepfuse::tools {

namespace {

using Command = Result<std::string> (*)(const Arguments&, const Console&);

constexpr std::array<std::pair<std::string_view, Command>, 11> kCommands{{{"run", command_run},
                                                                          {"inspect", command_inspect},
                                                                          {"explain", command_explain},
                                                                          {"opt", command_opt},
                                                                          {"list", command_list},
                                                                          {"describe", command_describe},
                                                                          {"cache", command_cache},
                                                                          {"route", command_route},
                                                                          {"config", command_config},
                                                                          {"aot", command_aot},
                                                                          {"doctor", command_doctor}}};

Outcome dispatch(const Arguments& arguments, const Console& console) {
  for (const auto& [name, command] : kCommands) {
    if (name != arguments.command) continue;
    const std::string file = command == command_aot ? "" : arguments.get("output");
    if (!file.empty()) STEPFUSE_TRY(check_writable(file));
    STEPFUSE_ASSIGN(const std::string text, command(arguments, console));
    return write_result(file, text);
  }
  return fail(StatusCode::Internal, "command {} has no function", arguments.command);
}

int finish(const Console& console, const Outcome& outcome) {
  if (outcome) return 0;
  Status status = outcome.error();
  if (status.code == StatusCode::Internal && status.hint.empty())
    status.hint = "this is a fault of stepfuse; please report it with the command line and its files";
  console.error(status);
  return exit_code(status.code);
}

int run(int argc, const char* const* argv) {
  const auto line = parse_command_line(argc, argv);
  if (!line) return finish(Console(), fail(line.error()));
  if (line->answer) return finish(Console(), write_result({}, *line->answer));
  const auto console = Console::create(line->arguments);
  if (!console) return finish(Console(), fail(console.error()));
  try {
    return finish(*console, dispatch(line->arguments, *console));
  } catch (const std::bad_alloc&) {
    return finish(*console, fail(StatusCode::Environment, "not enough memory"));
  } catch (const std::exception& error) {
    return finish(*console, fail(StatusCode::Internal, "internal error: {}", error.what()));
  }
}

}  // namespace

}  // namespace stepfuse::tools

int main(int argc, char** argv) { return stepfuse::tools::run(argc, argv); }
