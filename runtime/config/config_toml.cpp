// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/nearest.h"
#include "ir/support/toml.h"
#include "runtime/config/hyperparameters.h"
#include "runtime/config/raw_config.h"

#include <algorithm>
#include <array>

namespace stepfuse::runtime {

namespace {

std::string describe(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date or time";
    case toml::node_type::none:
      break;
  }
  return "nothing";
}

/// Numbers in their shortest form that reads back equal.
RawValue read_value(const toml::node& node) {
  using Kind = RawValue::Kind;
  RawValue value{Kind::Other, {}, describe(node)};
  if (const auto* integer = node.as_integer()) {
    value = {Kind::Number, {fmt::format("{}", integer->get())}, value.described};
  } else if (const auto* number = node.as_floating_point()) {
    value = {Kind::Number, {fmt::format("{}", number->get())}, value.described};
  } else if (const auto* truth = node.as_boolean()) {
    value = {Kind::Bool, {truth->get() ? "true" : "false"}, value.described};
  } else if (const auto* text = node.as_string()) {
    value = {Kind::Text, {text->get()}, value.described};
  } else if (const auto* list = node.as_array()) {
    value.kind = Kind::List;
    for (const toml::node& element : *list) {
      const RawValue item = read_value(element);
      if (item.kind == Kind::Other || item.kind == Kind::List)
        return {Kind::Other, {}, fmt::format("a list with {}", item.described)};
      value.items.push_back(item.items.front());
    }
  }
  return value;
}

class Reader {
 public:
  Reader(std::string_view name, RawConfig& raw, Errors& errors) : name_(name), raw_(raw), errors_(errors) {}

  void read(const toml::table& root) {
    for_each(root, [&](const toml::key& key, const toml::node& node) {
      if (key.str() == "settings")
        read_table(key, node, raw_.settings);
      else if (key.str() == "defaults")
        read_defaults(key, node);
      else if (key.str() == "group")
        read_groups(key, node);
      else if (node.is_table() || node.is_array_of_tables())
        refuse_unknown(key);
      else
        raw_.top.entries.push_back(entry(key, node));
    });
  }

 private:
  std::string place(const toml::source_region& region) const {
    return fmt::format("{}:{}:{}", name_, region.begin.line, region.begin.column);
  }

  void refuse(std::string message, std::string hint) {
    errors_.push_back({StatusCode::InvalidData, std::move(message), std::move(hint)});
  }

  void refuse_unknown(const toml::key& key) {
    refuse(fmt::format("{}: unknown table '{}'", place(key.source()), key.str()),
           suggestion(key.str(), kTopKeys, fmt::format("the keys of a config are {}", fmt::join(kTopKeys, ", "))));
  }

  /// In the order of the file; toml++ has them by name.
  template <class Visit>
  void for_each(const toml::table& table, Visit visit) {
    std::vector<std::pair<const toml::key*, const toml::node*>> entries;
    for (const auto& [key, node] : table) entries.emplace_back(&key, &node);
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      const toml::source_position& left = a.first->source().begin;
      const toml::source_position& right = b.first->source().begin;
      return std::pair(left.line, left.column) < std::pair(right.line, right.column);
    });
    for (const auto& [key, node] : entries) visit(*key, *node);
  }

  RawEntry entry(const toml::key& key, const toml::node& node) const {
    return {std::string(key.str()), read_value(node), place(key.source()), StatusCode::InvalidData};
  }

  void read_entries(const toml::table& table, RawSection& section) {
    for_each(table, [&](const toml::key& key, const toml::node& node) { section.entries.push_back(entry(key, node)); });
  }

  void read_table(const toml::key& key, const toml::node& node, RawSection& section) {
    section.where = place(key.source());
    if (const toml::table* table = node.as_table(); table != nullptr) return read_entries(*table, section);
    refuse(fmt::format("{}: expected a table, got {}", section.where + ": " + std::string(key.str()), describe(node)),
           fmt::format("write [{}] on a line of its own, and its keys below", key.str()));
  }

  /// Plain keys, and one table per optimizer.
  void read_defaults(const toml::key& key, const toml::node& node) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return read_table(key, node, raw_.defaults);
    for_each(*table, [&](const toml::key& inner, const toml::node& value) {
      const toml::table* optimizer = value.as_table();
      if (optimizer == nullptr || (optimizer->is_inline() && !is_optimizer(inner.str()))) {
        raw_.defaults.entries.push_back(entry(inner, value));
        return;
      }
      RawSection section{std::string(inner.str()), place(inner.source()), {}};
      read_entries(*optimizer, section);
      raw_.defaults_for.push_back(std::move(section));
    });
  }

  void read_groups(const toml::key& key, const toml::node& node) {
    const toml::array* groups = node.as_array();
    const bool tables = groups != nullptr && std::all_of(groups->begin(), groups->end(),
                                                         [](const toml::node& group) { return group.is_table(); });
    if (!tables)
      return refuse(fmt::format("{}: group: expected a list of tables, got {}", place(key.source()), describe(node)),
                    "begin each group with [[group]]");
    for (const toml::node& group : *groups) {
      RawSection section{{}, place(group.source()), {}};
      read_entries(*group.as_table(), section);
      raw_.groups.push_back(std::move(section));
    }
  }

  std::string_view name_;
  RawConfig& raw_;
  Errors& errors_;
};

}  // namespace

bool read_toml(std::string_view toml, std::string_view name, RawConfig& raw, Errors& errors) {
  raw.file = name;
  raw.blame = StatusCode::InvalidData;
  try {
    const toml::table root = toml::parse(toml, name);
    Reader(name, raw, errors).read(root);
    return true;
  } catch (const toml::parse_error& error) {
    const toml::source_position& at = error.source().begin;
    errors.push_back({StatusCode::InvalidData,
                      fmt::format("{}:{}:{}: {}", name, at.line, at.column, error.description()),
                      "a config is TOML: docs/config.md has an example"});
    return false;
  } catch (const std::invalid_argument& error) {
    errors.push_back({StatusCode::InvalidData, fmt::format("{}: {}", name, error.what()),
                      "a config is TOML: docs/config.md has an example"});
    return false;
  }
}

}  // namespace stepfuse::runtime
