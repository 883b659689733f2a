// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/library.h"

#include "runtime/target.h"
#include "tools/option_values.h"

namespace stepfuse::tools {

namespace {

constexpr int64_t kMostThreads = 1024;

}  // namespace

Result<std::vector<runtime::SettingSource>> read_setting_flags(const Arguments& arguments) {
  STEPFUSE_TRY(read_target(arguments).map([](const std::string&) {}));
  STEPFUSE_TRY(read_mode(arguments).map([](ir::Mode) {}));
  STEPFUSE_ASSIGN(const std::vector<std::string> disabled, read_passes(arguments, "disable"));
  std::vector<runtime::SettingSource> flags;
  for (const char* count : {"threads", "jobs"})
    STEPFUSE_TRY(read_count(arguments, count, 1, 1, kMostThreads).map([](int64_t) {}));
  for (const char* name : {"target", "mode", "threads", "jobs"})
    if (arguments.has(name)) flags.push_back({name, arguments.get(name), fmt::format("--{}", name)});
  if (!disabled.empty()) flags.push_back({"disable", fmt::format("{}", fmt::join(disabled, ",")), "--disable"});
  return flags;
}

Result<std::shared_ptr<const runtime::Context>> make_context(const Arguments& arguments,
                                                             const std::vector<runtime::SettingSource>& file,
                                                             const std::vector<runtime::SettingSource>& more) {
  runtime::Context::Options options;
  STEPFUSE_ASSIGN(options.flags, read_setting_flags(arguments));
  options.flags.insert(options.flags.end(), more.begin(), more.end());
  options.file = file;
  return runtime::Context::create(options);
}

ir::Mode mode_of(const runtime::Settings& settings) {
  return settings.is("mode", "strict") ? ir::Mode::Strict : ir::Mode::Default;
}

Result<compiler::PlanOptions> plan_options(const runtime::Settings& settings) {
  return plan_options(settings, settings.text("target"));
}

Result<compiler::PlanOptions> plan_options(const runtime::Settings& settings, const std::string& target) {
  compiler::PlanOptions options;
  options.mode = mode_of(settings);
  options.runner.disabled = settings.list("disable");
  for (const std::string& pass : options.runner.disabled)
    STEPFUSE_TRY(compiler::find_pass(pass).map([](const compiler::PassInfo*) {}));
  STEPFUSE_ASSIGN(options.target, runtime::target_traits(target, settings));
  return options;
}

}  // namespace stepfuse::tools
