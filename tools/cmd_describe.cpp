// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/recipe.h"
#include "tools/commands.h"
#include "tools/option_values.h"
#include "tools/routing.h"

#include <nlohmann/json.hpp>

namespace stepfuse::tools {

namespace {

using nlohmann::ordered_json;

std::string_view kind_name(ir::OptionKind kind) {
  switch (kind) {
    case ir::OptionKind::Number:
      return "number";
    case ir::OptionKind::Integer:
      return "integer";
    case ir::OptionKind::Bool:
      return "bool";
    case ir::OptionKind::Choice:
      return "choice";
    case ir::OptionKind::Numbers:
      return "numbers";
  }
  return "unknown";
}

std::string legal_values(const ir::OptionInfo& option) {
  switch (option.kind) {
    case ir::OptionKind::Bool:
      return "true, false";
    case ir::OptionKind::Choice:
      return fmt::format("{}", fmt::join(option.choices, ", "));
    case ir::OptionKind::Numbers:
      return fmt::format("each of {} in {}", fmt::join(option.elements, ", "), ir::interval_text(option.range));
    case ir::OptionKind::Number:
    case ir::OptionKind::Integer:
      return ir::interval_text(option.range);
  }
  return {};
}

std::string recipe_json(const ir::Recipe& recipe, const std::string& remark) {
  ordered_json options = ordered_json::array();
  for (const ir::OptionInfo& option : recipe.options())
    options.push_back({{"option", option.name},
                       {"type", kind_name(option.kind)},
                       {"default", option.default_text},
                       {"range", legal_values(option)},
                       {"description", option.description},
                       {"source", option.source}});
  ordered_json result{
      {"schema", 1},       {"recipe", recipe.name}, {"summary", recipe.summary}, {"follows", recipe.follows},
      {"preset", "torch"}, {"options", options}};
  if (!remark.empty()) result["remark"] = remark;
  return result.dump(2) + "\n";
}

std::string recipe_text(const ir::Recipe& recipe, const std::string& remark) {
  std::string text = fmt::format("{}: {}\nfollows {} (preset torch)\n\n", recipe.name, recipe.summary, recipe.follows);
  for (const ir::OptionInfo& option : recipe.options())
    text += fmt::format("{:<16} {:<8} default {}\n    {}\n    legal: {}\n    source: {}\n", option.name,
                        kind_name(option.kind), option.default_text, option.description, legal_values(option),
                        option.source);
  if (!remark.empty()) text += fmt::format("\n{}\n", remark);
  return text;
}

}  // namespace

Result<std::string> command_describe(const Arguments& arguments, const Console&) {
  STEPFUSE_ASSIGN(const std::string format, read_choice(arguments, "format", {"text", "json"}, {"dot", "html"}));
  STEPFUSE_TRY(check_preset(arguments));
  if (arguments.positionals.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "describe what?"),
                     "name a recipe; `stepfuse list recipes` shows them");
  STEPFUSE_ASSIGN(const ir::Recipe* recipe, ir::find_recipe(arguments.positionals.front()));
  STEPFUSE_ASSIGN(const ir::OptionValues defaults, ir::parse_options(recipe->name, recipe->options(), {}));
  const std::string remark = remark_on(*recipe, defaults);
  return format == "json" ? recipe_json(*recipe, remark) : recipe_text(*recipe, remark);
}

}  // namespace stepfuse::tools
