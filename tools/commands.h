// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "tools/cli_options.h"
#include "tools/console.h"

#include <string>

namespace stepfuse::tools {

// Each command checks all its options, then opens files. What it returns goes to stdout or --output, but for aot, whose
// --output is the bundle; messages go through the console.

Result<std::string> command_run(const Arguments& arguments, const Console& console);
Result<std::string> command_inspect(const Arguments& arguments, const Console& console);
Result<std::string> command_explain(const Arguments& arguments, const Console& console);
Result<std::string> command_opt(const Arguments& arguments, const Console& console);
Result<std::string> command_list(const Arguments& arguments, const Console& console);
Result<std::string> command_cache(const Arguments& arguments, const Console& console);
Result<std::string> command_describe(const Arguments& arguments, const Console& console);
Result<std::string> command_route(const Arguments& arguments, const Console& console);
Result<std::string> command_config(const Arguments& arguments, const Console& console);
Result<std::string> command_aot(const Arguments& arguments, const Console& console);
Result<std::string> command_doctor(const Arguments& arguments, const Console& console);

}  // namespace stepfuse::tools
