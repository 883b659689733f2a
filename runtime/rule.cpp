// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/rule.h"

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/support/nearest.h"
#include "ir/support/number.h"
#include "ir/verify.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

namespace stepfuse::runtime {

namespace {

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return with_hint(fail(StatusCode::NotFound, "cannot open '{}': {}", path, std::strerror(errno)),
                     "check the path of the IR file");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

tl::unexpected<Status> unknown_hyper(const ir::Graph& graph, const std::string& name) {
  std::vector<std::string_view> names;
  for (const ir::Input& input : graph.inputs())
    if (input.kind == ir::InputKind::Hyper) names.push_back(input.name);
  return with_hint(fail(StatusCode::InvalidArgument, "rule {} has no hyperparameter '{}'", graph.name, name),
                   suggestion(name, names, fmt::format("its hyperparameters are {}", fmt::join(names, ", "))));
}

Result<double> hyper_value(const ir::Graph& graph, const ir::Input& input, const std::string& text) {
  const auto value = parse_number(text);
  if (value && input.range.contains(*value)) return *value;
  return with_hint(fail(StatusCode::InvalidArgument, "rule {}: {}={} is not legal", graph.name, input.name, text),
                   fmt::format("{} takes a number in {}", input.name, ir::interval_text(input.range)));
}

/// The rule with hyperparameters from `options`, then from its own defaults.
Result<ir::Graph> fill_hypers(const ir::Graph& graph, const ir::OptionList& options) {
  std::set<std::string> seen;
  for (const auto& [name, text] : options) {
    const ir::Input* input = graph.find_input(name);
    if (input == nullptr || input->kind != ir::InputKind::Hyper) return unknown_hyper(graph, name);
    if (!seen.insert(name).second)
      return with_hint(fail(StatusCode::InvalidArgument, "rule {}: {} is given twice", graph.name, name),
                       "give each hyperparameter once");
  }
  ir::Graph out = graph;
  for (const ir::Input& input : graph.inputs()) {
    if (input.kind != ir::InputKind::Hyper) continue;
    const auto it =
        std::find_if(options.begin(), options.end(), [&](const auto& option) { return option.first == input.name; });
    if (it == options.end() && !input.default_value)
      return with_hint(
          fail(StatusCode::InvalidArgument, "rule {}: hyperparameter {} has no value", graph.name, input.name),
          fmt::format("give it with --set {}=..., or a default in the rule", input.name));
    if (it == options.end()) continue;
    STEPFUSE_ASSIGN(const double value, hyper_value(graph, input, it->second));
    out.set_default(input.value, value);
  }
  return out;
}

/// Parses and verifies. The message already says what was expected where; the hint says where the language is written
/// down.
Result<ir::Graph> parse_rule(const std::string& text, const std::string& file) {
  auto graph = ir::parse(text, file).and_then([](ir::Graph parsed) -> Result<ir::Graph> {
    STEPFUSE_TRY(ir::check(parsed));
    return parsed;
  });
  if (!graph && graph.error().hint.empty())
    graph.error().hint =
        "docs/ir.md has the text form; `stepfuse inspect --recipe adamw --stage naive` prints an example";
  return graph;
}

bool is_text(const std::string& recipe) { return recipe.find('\n') != std::string::npos; }

}  // namespace

Result<ir::Graph> read_rule(const std::string& path) {
  STEPFUSE_ASSIGN(const std::string text, read_text(path));
  return parse_rule(text, path);
}

Result<Rule> Rule::create(const std::string& recipe, const ir::OptionList& options) {
  Rule rule;
  if (!is_text(recipe) && !recipe.ends_with(".sfir")) {
    STEPFUSE_ASSIGN(rule.recipe_, ir::find_recipe(recipe));
    STEPFUSE_ASSIGN(rule.values_, ir::parse_options(recipe, rule.recipe_->options(), options));
    STEPFUSE_TRY(rule.recipe_->validate(rule.values_));
    rule.name_ = recipe;
    return rule;
  }
  std::string text = recipe;
  if (!is_text(recipe)) {
    STEPFUSE_ASSIGN(text, read_text(recipe));
  }
  STEPFUSE_ASSIGN(const ir::Graph graph, parse_rule(text, is_text(recipe) ? "<rule>" : recipe));
  STEPFUSE_ASSIGN(rule.graph_, fill_hypers(graph, options));
  rule.name_ = graph.name;
  return rule;
}

Result<ir::Graph> Rule::instantiate(const ir::ParameterSpec& parameter) const {
  if (recipe_ != nullptr) return recipe_->build(values_, parameter);
  for (const ir::Input& input : graph_.inputs()) {
    const ir::DType given = input.kind == ir::InputKind::Param  ? parameter.param
                            : input.kind == ir::InputKind::Grad ? parameter.grad
                                                                : input.type.dtype;
    if (!input.type.scalar && input.type.dtype != given)
      return with_hint(fail(StatusCode::InvalidArgument, "rule {}: %{} is {}, the tensor is {}", name_, input.name,
                            ir::dtype_name(input.type.dtype), ir::dtype_name(given)),
                       "convert the tensor, or declare its element type in the rule");
  }
  return graph_;
}

ir::PeerLaunches Rule::peer() const { return recipe_ != nullptr ? recipe_->peer_eager(values_) : ir::PeerLaunches{}; }

}  // namespace stepfuse::runtime
