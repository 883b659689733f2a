// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/recipe.h"

#include "ir/support/nearest.h"
#include "ir/support/number.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace stepfuse::ir {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// Where an error points, such as "adamw: lr", and the option's name.
struct Place {
  std::string subject;
  std::string_view option;
};

tl::unexpected<Status> bad_value(const Place& place, std::string_view text, const std::string& legal) {
  return with_hint(fail(StatusCode::InvalidArgument, "{}={} is not legal", place.subject, text),
                   fmt::format("{} takes {}", place.option, legal));
}

Result<double> parse_in_range(const Place& place, std::string_view text, const Interval& range, bool integer) {
  const std::string_view wanted = integer ? "an integer" : "a number";
  const std::string legal = fmt::format("{} in {}", wanted, interval_text(range));
  const auto number = parse_number(text);
  if (!number)
    return with_hint(fail(StatusCode::InvalidArgument, "{}: expected {}, got '{}'", place.subject, wanted, text),
                     fmt::format("{} takes {}", place.option, legal));
  if (!range.contains(*number) || (integer && *number != std::floor(*number))) return bad_value(place, text, legal);
  return *number;
}

Result<double> parse_bool(const Place& place, std::string_view text) {
  if (text == "true" || text == "True" || text == "1") return 1.0;
  if (text == "false" || text == "False" || text == "0") return 0.0;
  return bad_value(place, text, "true or false");
}

/// "(0.9,0.999)" as Python has it; a bracket without its partner stays and is no number.
std::string_view without_brackets(std::string_view text) {
  const bool paired = (text.starts_with('(') && text.ends_with(')')) || (text.starts_with('[') && text.ends_with(']'));
  return paired && text.size() >= 2 ? text.substr(1, text.size() - 2) : text;
}

Outcome parse_numbers(const Place& place, const OptionInfo& info, std::string_view text, OptionValues& out) {
  const auto parts = split(without_brackets(text), ',');
  if (parts.size() != info.elements.size())
    return bad_value(
        place, text,
        fmt::format("{} numbers separated by commas, such as {}", info.elements.size(), info.default_text));
  for (size_t i = 0; i < parts.size(); ++i) {
    STEPFUSE_ASSIGN(const double value, parse_in_range(place, parts[i], info.range, false));
    out.set(std::string(info.elements[i]), std::string(parts[i]), value);
  }
  out.set(std::string(info.name), std::string(text), 0);
  return {};
}

Outcome parse_option(const Place& place, const OptionInfo& info, std::string_view text, OptionValues& out) {
  const std::string name(info.name);
  switch (info.kind) {
    case OptionKind::Number:
    case OptionKind::Integer: {
      STEPFUSE_ASSIGN(const double value, parse_in_range(place, text, info.range, info.kind == OptionKind::Integer));
      out.set(name, std::string(text), value);
      return {};
    }
    case OptionKind::Bool: {
      STEPFUSE_ASSIGN(const double value, parse_bool(place, text));
      out.set(name, std::string(text), value);
      return {};
    }
    case OptionKind::Choice:
      if (std::find(info.choices.begin(), info.choices.end(), text) == info.choices.end())
        return bad_value(place, text, fmt::format("one of {}", fmt::join(info.choices, ", ")));
      out.set(name, std::string(text), 0);
      return {};
    case OptionKind::Numbers:
      return parse_numbers(place, info, text, out);
  }
  return fail(StatusCode::Internal, "unknown option kind");
}

tl::unexpected<Status> unknown_option(std::string_view recipe, std::span<const OptionInfo> table,
                                      std::string_view name) {
  std::vector<std::string_view> names;
  for (const OptionInfo& info : table) names.push_back(info.name);
  return with_hint(fail(StatusCode::InvalidArgument, "{} has no option '{}'", recipe, name),
                   suggestion(name, names, fmt::format("the options are {}", fmt::join(names, ", "))));
}

/// The names one option claims: itself and its elements.
Outcome claim(std::string_view recipe, const OptionInfo& info, std::string_view name,
              std::set<std::string_view>& claimed) {
  std::vector<std::string_view> names{name};
  if (name == info.name) names.insert(names.end(), info.elements.begin(), info.elements.end());
  for (std::string_view each : names)
    if (!claimed.insert(each).second)
      return with_hint(fail(StatusCode::InvalidArgument, "{}: {} is given twice", recipe, each),
                       "give each option once, by itself or as part of its list");
  return {};
}

}  // namespace

double OptionValues::number(std::string_view name) const {
  const auto it = values_.find(name);
  STEPFUSE_CHECK(it != values_.end(), "option {} is not in the table", name);
  return it->second.number;
}

bool OptionValues::flag(std::string_view name) const { return number(name) != 0; }

std::string_view OptionValues::choice(std::string_view name) const {
  const auto it = values_.find(name);
  STEPFUSE_CHECK(it != values_.end(), "option {} is not in the table", name);
  return it->second.text;
}

void OptionValues::set(std::string name, std::string text, double value) {
  values_[std::move(name)] = {std::move(text), value};
}

std::string OptionValues::text(std::string_view name) const { return std::string(choice(name)); }

const OptionInfo* find_option(std::span<const OptionInfo> table, std::string_view name) {
  for (const OptionInfo& info : table)
    if (info.name == name || std::find(info.elements.begin(), info.elements.end(), name) != info.elements.end())
      return &info;
  return nullptr;
}

Outcome check_option(const std::string& subject, const OptionInfo& info, std::string_view name, std::string_view text,
                     OptionValues& out) {
  if (name == info.name) return parse_option({subject, info.name}, info, text, out);
  STEPFUSE_ASSIGN(const double value, parse_in_range({subject, name}, text, info.range, false));
  out.set(std::string(name), std::string(text), value);
  return {};
}

Result<OptionValues> parse_options(std::string_view recipe, std::span<const OptionInfo> table,
                                   const OptionList& given) {
  OptionValues values;
  const auto subject = [&](std::string_view name) { return fmt::format("{}: {}", recipe, name); };
  for (const OptionInfo& info : table)
    STEPFUSE_TRY(check_option(subject(info.name), info, info.name, info.default_text, values));
  std::set<std::string_view> claimed;
  for (const auto& [name, text] : given) {
    const OptionInfo* info = find_option(table, name);
    if (info == nullptr) return unknown_option(recipe, table, name);
    STEPFUSE_TRY(claim(recipe, *info, name, claimed));
    STEPFUSE_TRY(check_option(subject(name), *info, name, text, values));
  }
  return values;
}

std::span<const Recipe> all_recipes() {
  static const std::vector<Recipe> kRecipes{kAdamWRecipe, kAdamRecipe, kSgdRecipe, kMuonRecipe};
  return kRecipes;
}

Result<const Recipe*> find_recipe(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Recipe& recipe : all_recipes()) {
    if (recipe.name == name) return &recipe;
    names.push_back(recipe.name);
  }
  return with_hint(
      fail(StatusCode::InvalidArgument, "there is no recipe '{}'", name),
      suggestion(name, names, fmt::format("the recipes are {}; an IR file ends in .sfir", fmt::join(names, ", "))));
}

}  // namespace stepfuse::ir
