// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/hyperparameters.h"

#include "ir/support/nearest.h"
#include "ir/support/number.h"
#include "ir/support/version.h"
#include "runtime/rule.h"

#include <algorithm>
#include <array>

namespace stepfuse::runtime {

namespace {

struct Renamed {
  std::string_view optimizer;  // of an option; empty for an optimizer
  std::string_view old_name, name;
};

/// Megatron-LM's launch scripts carry its names from before its pull request 4060; torch's classes are capitalised.
constexpr std::array kRenamed{Renamed{"", "dist_muon", "muon"},
                              Renamed{"", "Muon", "muon"},
                              Renamed{"", "AdamW", "adamw"},
                              Renamed{"", "Adam", "adam"},
                              Renamed{"", "SGD", "sgd"},
                              Renamed{"muon", "use_nesterov", "nesterov"},
                              Renamed{"muon", "num_ns_steps", "ns_steps"}};

constexpr std::array<std::string_view, 8> kPresets{"torch", "keller",    "emerging", "megatron",
                                                   "verl",  "moonlight", "dion",     "gns"};

std::string_view renamed(std::string_view optimizer, std::string_view name) {
  for (const Renamed& entry : kRenamed)
    if (entry.optimizer == optimizer && entry.old_name == name) return entry.name;
  return {};
}

}  // namespace

Result<Hyperparameters> Hyperparameters::of(const std::string& optimizer) {
  Hyperparameters out;
  if (!optimizer.ends_with(".sfir")) {
    STEPFUSE_ASSIGN(out.recipe_, ir::find_recipe(optimizer));
    return out;
  }
  STEPFUSE_ASSIGN(ir::Graph graph, read_rule(optimizer));
  out.graph_ = std::make_shared<const ir::Graph>(std::move(graph));
  for (const ir::Input& input : out.graph_->inputs())
    if (input.kind == ir::InputKind::Hyper)
      out.table_.push_back({input.name, ir::OptionKind::Number, {}, input.range, {}, {}, {}, {}});
  return out;
}

std::span<const ir::OptionInfo> Hyperparameters::table() const {
  return recipe_ != nullptr ? recipe_->options() : std::span<const ir::OptionInfo>(table_);
}

std::vector<std::string_view> Hyperparameters::names() const {
  std::vector<std::string_view> names;
  for (const ir::OptionInfo& info : table()) names.push_back(info.name);
  return names;
}

Result<ir::OptionList> Hyperparameters::check(const std::string& subject, std::string_view option,
                                              const std::string& text) const {
  const ir::OptionInfo* info = find(option);
  STEPFUSE_CHECK(info != nullptr, "there is no option '{}'", option);
  ir::OptionValues values;
  STEPFUSE_TRY(ir::check_option(subject, *info, option, text, values));
  if (info->elements.empty() || option != info->name) return ir::OptionList{{std::string(option), text}};
  ir::OptionList elements;
  for (std::string_view element : info->elements) elements.emplace_back(element, values.text(element));
  return elements;
}

std::optional<double> Hyperparameters::number(const ir::OptionList& given, std::string_view option) const {
  for (const auto& [name, text] : given)
    if (name == option) return parse_number(text);
  if (graph_ != nullptr) {
    const ir::Input* input = graph_->find_input(std::string(option));
    return input != nullptr && input->kind == ir::InputKind::Hyper ? input->default_value : std::nullopt;
  }
  const ir::OptionInfo* info = find(option);
  return info != nullptr ? parse_number(info->default_text) : std::nullopt;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const ir::Recipe& recipe : ir::all_recipes()) names.emplace_back(recipe.name);
  return names;
}

bool is_optimizer(std::string_view name) {
  const std::vector<std::string> names = optimizer_names();
  return !renamed({}, name).empty() || std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view renamed_optimizer(std::string_view name) { return renamed({}, name); }

std::string_view renamed_option(std::string_view optimizer, std::string_view option) {
  return renamed(optimizer, option);
}

std::string foreign_option_hint(std::string_view option) {
  for (const ir::Recipe& recipe : ir::all_recipes()) {
    if (!option.starts_with(recipe.name) || option.size() <= recipe.name.size() + 1 ||
        option[recipe.name.size()] != '_')
      continue;
    const std::string_view rest = option.substr(recipe.name.size() + 1);
    const std::string_view ours = renamed(recipe.name, rest);
    const std::string_view known = ours.empty() ? rest : ours;
    if (ir::find_option(recipe.options(), known) != nullptr)
      return fmt::format("write {} under [defaults.{}], or {}.{}=...", known, recipe.name, recipe.name, known);
    return fmt::format("{} has no option '{}' in this version; see `stepfuse describe {}`", recipe.name, rest,
                       recipe.name);
  }
  return {};
}

Outcome check_preset_name(const std::string& subject, std::string_view preset) {
  if (preset == kPresets.front()) return {};
  if (std::find(kPresets.begin(), kPresets.end(), preset) != kPresets.end())
    return with_hint(
        fail(StatusCode::Unsupported, "{}: preset '{}' is not yet in this version ({})", subject, preset, kVersion),
        "the preset of this version is torch");
  return with_hint(fail(StatusCode::InvalidArgument, "{}: there is no preset '{}'", subject, preset),
                   suggestion(preset, kPresets, fmt::format("the presets are {}", fmt::join(kPresets, ", "))));
}

}  // namespace stepfuse::runtime
