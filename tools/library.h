// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"
#include "runtime/context.h"
#include "tools/cli_options.h"

#include <memory>
#include <vector>

namespace stepfuse::tools {

// The library's settings as a command sees them: its own flags over the environment over the config over the defaults.

/// --target, --mode, --threads, --jobs and --disable, checked; opens nothing.
Result<std::vector<runtime::SettingSource>> read_setting_flags(const Arguments& arguments);

/// `file`: the [settings] of the config; `more`: what the command itself demands.
Result<std::shared_ptr<const runtime::Context>> make_context(const Arguments& arguments,
                                                             const std::vector<runtime::SettingSource>& file = {},
                                                             const std::vector<runtime::SettingSource>& more = {});

/// Mode, target and disabled passes.
Result<compiler::PlanOptions> plan_options(const runtime::Settings& settings);
/// The same for a target that is not the setting's.
Result<compiler::PlanOptions> plan_options(const runtime::Settings& settings, const std::string& target);
ir::Mode mode_of(const runtime::Settings& settings);

}  // namespace stepfuse::tools
