// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/nearest.h"
#include "runtime/config/hyperparameters.h"
#include "runtime/config/raw_config.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>

namespace stepfuse::runtime {

namespace {

constexpr auto kSingleKeys = std::span(kTopKeys).first<3>();  // the others are tables

/// The section called `name`, made if it is new.
RawSection& section_of(std::vector<RawSection>& sections, std::string_view name) {
  const auto it = std::find_if(sections.begin(), sections.end(), [&](const auto& s) { return s.name == name; });
  if (it != sections.end()) return *it;
  return sections.emplace_back(RawSection{std::string(name), {}, {}});
}

void put(RawSection& section, std::string_view key, const std::pair<std::string, std::string>& pair) {
  RawEntry entry{
      std::string(key), {RawValue::Kind::Written, {pair.second}, "a text"}, pair.first, StatusCode::InvalidArgument};
  if (RawEntry* old = section.find(key); old != nullptr)
    *old = std::move(entry);
  else
    section.entries.push_back(std::move(entry));
}

/// The section that `path`, the key without its last part, stands for; null if there is none.
RawSection* find_section(std::string_view path, RawConfig& raw) {
  if (path.empty() || path == "defaults") return &raw.defaults;
  if (path == "settings") return &raw.settings;
  if (path.starts_with("group.")) return &section_of(raw.groups, path.substr(6));
  const bool below = path.starts_with("defaults.");
  const std::string_view name = below ? path.substr(9) : path;
  if (is_optimizer(name)) return &section_of(raw.defaults_for, name);
  for (RawSection& group : raw.groups)
    if (!below && group.name == name) return &group;
  return nullptr;
}

Status unknown_path(const std::string& key, std::string_view path, const RawConfig& raw) {
  std::vector<std::string> names = optimizer_names();
  for (const RawSection& group : raw.groups) names.push_back(group.name);
  const std::vector<std::string_view> views(names.begin(), names.end());
  return {StatusCode::InvalidArgument, fmt::format("{}: there is no optimizer or group '{}'", key, path),
          suggestion(path, views, "write KEY, OPTIMIZER.KEY, group.NAME.KEY or settings.KEY")};
}

}  // namespace

void read_pairs(const ir::OptionList& pairs, RawConfig& raw, Errors& errors) {
  // Names of groups are known to `find_section` before their pairs come.
  for (size_t i = 0; i < raw.groups.size(); ++i) {
    RawSection& group = raw.groups[i];
    if (const RawEntry* name = group.find("name"); name != nullptr) group.name = name->value.text();
    if (group.name.empty()) group.name = std::to_string(i + 1);
  }
  std::set<std::string_view> given;
  for (const auto& pair : pairs) {
    const std::string_view key = pair.first;
    const size_t dot = key.rfind('.');
    const std::string_view path = dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
    const std::string_view last = key.substr(dot + 1);
    const bool top = path.empty() && std::find(kSingleKeys.begin(), kSingleKeys.end(), last) != kSingleKeys.end();
    RawSection* section = top ? &raw.top : find_section(path, raw);
    if (!given.insert(key).second)
      errors.push_back({StatusCode::InvalidArgument, fmt::format("{} is given twice", key), "give each key once"});
    else if (last.empty())
      errors.push_back({StatusCode::InvalidArgument, fmt::format("'{}' ends in no key", key), "write it like lr=0.02"});
    else if (section == nullptr)
      errors.push_back(unknown_path(pair.first, path, raw));
    else
      put(*section, last, pair);
  }
}

}  // namespace stepfuse::runtime
