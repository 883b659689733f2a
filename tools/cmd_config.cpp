// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/commands.h"
#include "tools/model.h"
#include "tools/routing.h"

namespace stepfuse::tools {

namespace {

/// All of `errors` are said; the last one decides the exit code.
tl::unexpected<Status> report(const std::vector<Status>& errors, const Console& console) {
  for (size_t i = 0; i + 1 < errors.size(); ++i) console.error(errors[i]);
  return fail(errors.back());
}

/// "3 groups", "1 setting".
std::string count(size_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace

Result<std::string> command_config(const Arguments& arguments, const Console& console) {
  if (arguments.positionals.size() != 2 || arguments.positionals.front() != "check")
    return with_hint(fail(StatusCode::InvalidArgument, "config needs a word and a file"), "stepfuse config check FILE");
  STEPFUSE_ASSIGN(const ir::OptionList pairs, read_sets(arguments));
  STEPFUSE_ASSIGN(const ModelSource source, read_model_source(arguments));
  runtime::CheckedConfig checked = runtime::check_config(arguments.positionals.back(), pairs);
  if (!checked.errors.empty()) return report(checked.errors, console);
  const std::string summary = fmt::format("ok: {}, {}", count(checked.config.groups.size(), "group"),
                                          count(checked.config.settings.size(), "setting"));
  if (source.empty()) {
    for (const std::string& note : checked.config.notes) console.note(note);
    return summary + "\n";
  }
  STEPFUSE_ASSIGN(const std::vector<ModelParameter> model, load_model(source));
  STEPFUSE_ASSIGN(const runtime::Router router, runtime::Router::create(std::move(checked.config)));
  std::vector<Status> errors;
  const runtime::Routes routes = router.route(to_route(model), errors);
  if (!errors.empty()) return report(errors, console);
  for (const std::string& note : routes.notes) console.note(note);
  return fmt::format("{}; {} in {} of the optimizer\n", summary, count(model.size(), "parameter"),
                     count(routes.groups.size(), "group"));
}

}  // namespace stepfuse::tools
