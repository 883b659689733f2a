// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/pass.h"
#include "ir/op.h"
#include "ir/optimizers/recipe.h"
#include "ir/support/nearest.h"
#include "runtime/cpu_backend.h"
#include "runtime/cuda_backend.h"
#include "tools/commands.h"
#include "tools/option_values.h"
#include "tools/routing.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

namespace stepfuse::tools {

namespace {

using nlohmann::ordered_json;

/// Rows of one list; every row has the columns' names as keys, the first column is the name.
using Rows = std::vector<std::vector<std::pair<std::string, std::string>>>;

Rows recipe_rows(const runtime::Settings&) {
  Rows rows;
  for (const ir::Recipe& recipe : ir::all_recipes())
    rows.push_back({{"name", std::string(recipe.name)},
                    {"summary", std::string(recipe.summary)},
                    {"follows", std::string(recipe.follows)}});
  return rows;
}

Rows preset_rows(const runtime::Settings&) {
  return {{{"name", "torch"}, {"summary", "order, defaults and errors of torch.optim 2.15.0; the default"}}};
}

Rows pass_rows(const runtime::Settings&) {
  Rows rows;
  for (const compiler::PassInfo& pass : compiler::all_passes())
    rows.push_back({{"name", std::string(pass.name)},
                    {"level", std::string(compiler::level_name(pass.level))},
                    {"modes", pass.default_mode_only ? "default" : "default, strict"},
                    {"summary", std::string(pass.summary)}});
  return rows;
}

Rows op_rows(const runtime::Settings&) {
  Rows rows;
  for (const ir::OpInfo& op : ir::all_ops()) {
    const std::string arity =
        op.arity_min == op.arity_max ? std::to_string(op.arity_min) : fmt::format("{}-{}", op.arity_min, op.arity_max);
    rows.push_back(
        {{"name", std::string(op.mnemonic)}, {"operands", arity}, {"definition", std::string(op.definition)}});
  }
  return rows;
}

/// As the environment has it: what NVRTC and the driver are found.
Rows cuda_target_rows(const runtime::Settings& settings) {
  Rows rows;
  for (const runtime::CudaTargetInfo& target : runtime::cuda_targets(settings))
    rows.push_back(
        {{"name", target.name}, {"runs_here", target.runs_here ? "yes" : "no"}, {"summary", target.summary}});
  return rows;
}

Rows target_rows(const runtime::Settings& settings) {
  Rows rows{{{"name", "interp"},
             {"runs_here", "yes"},
             {"summary", "the interpreter: f64 in default mode, each op rounded as defined in strict"}}};
  for (const runtime::CpuTargetInfo& target : runtime::cpu_targets())
    rows.push_back(
        {{"name", target.name}, {"runs_here", target.runs_here ? "yes" : "no"}, {"summary", target.summary}});
  for (auto& row : cuda_target_rows(settings)) rows.push_back(std::move(row));
  return rows;
}

Rows coefficient_rows(const runtime::Settings&) {
  return {{{"name", "quintic"},
           {"ns_coefficients", "3.4445,-4.775,2.0315"},
           {"summary", "torch's; singular values end in about [0.68, 1.21]"}}};
}

/// Columns as wide as their longest cell; the last one is left ragged.
std::string table_text(const Rows& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].second.size());
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) text += fmt::format("{:<{}}  ", row[i].second, widths[i]);
    text += row.back().second + "\n";
  }
  return text;
}

std::string table_json(const std::string& what, const Rows& rows) {
  ordered_json list = ordered_json::array();
  for (const auto& row : rows) {
    ordered_json entry;
    for (const auto& [key, value] : row) entry[key] = value;
    list.push_back(entry);
  }
  return ordered_json{{"schema", 1}, {what, list}}.dump(2) + "\n";
}

struct List {
  std::string_view name;
  Rows (*rows)(const runtime::Settings&);
};
constexpr std::array kLists{List{"recipes", recipe_rows}, List{"presets", preset_rows},
                            List{"passes", pass_rows},    List{"ops", op_rows},
                            List{"targets", target_rows}, List{"coefficients", coefficient_rows}};

}  // namespace

Result<std::string> command_list(const Arguments& arguments, const Console&) {
  STEPFUSE_ASSIGN(const std::string format, read_choice(arguments, "format", {"text", "json"}, {"dot", "html"}));
  std::vector<std::string_view> names;
  for (const List& list : kLists) names.push_back(list.name);
  const std::string all = fmt::format("the lists are {}", fmt::join(names, ", "));
  if (arguments.positionals.empty()) return with_hint(fail(StatusCode::InvalidArgument, "list what?"), all);
  const std::string& what = arguments.positionals.front();
  STEPFUSE_ASSIGN(const auto settings, runtime::Settings::resolve({}, runtime::Settings::process_environment()));
  for (const List& list : kLists)
    if (list.name == what)
      return format == "json" ? table_json(what, list.rows(settings)) : table_text(list.rows(settings));
  return with_hint(fail(StatusCode::InvalidArgument, "there is no list of '{}'", what), suggestion(what, names, all));
}

}  // namespace stepfuse::tools
