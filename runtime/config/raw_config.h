// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/optimizers/recipe.h"
#include "ir/support/status.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// The keys of a config outside of its tables; the last three are the tables.
inline constexpr std::array<std::string_view, 6> kTopKeys{"strict_config", "unmatched", "unknown_2d",
                                                          "settings",      "defaults",  "group"};

/// A value as written. Written: the text of a key=value pair, which has no type of its own.
struct RawValue {
  enum class Kind : uint8_t { Number, Bool, Text, List, Written, Other } kind = Kind::Written;
  std::vector<std::string> items;  // those of a List, else one
  std::string described;           // "a number", "a table": for messages

  /// The value as key=value has it; a list by commas.
  std::string text(std::string_view separator = ",") const { return fmt::format("{}", fmt::join(items, separator)); }
};

struct RawEntry {
  std::string key;
  RawValue value;
  std::string place;  // "stepfuse.toml:3:1"; the whole key of a pair: "muon.lr"
  StatusCode blame = StatusCode::InvalidArgument;

  /// Begins a message: "stepfuse.toml:3:1: lr", "muon.lr".
  std::string where() const { return blame == StatusCode::InvalidData ? place + ": " + key : place; }
};

struct RawSection {
  std::string name;   // of a group or an optimizer
  std::string where;  // "stepfuse.toml:9:1"; empty for pairs
  std::vector<RawEntry> entries;

  RawEntry* find(std::string_view key) {
    for (RawEntry& entry : entries)
      if (entry.key == key) return &entry;
    return nullptr;
  }
};

/// What both spellings are brought into before anything is believed.
struct RawConfig {
  std::string file;  // as named in messages; empty if there is none
  StatusCode blame = StatusCode::InvalidArgument;
  RawSection top, settings, defaults;
  std::vector<RawSection> defaults_for;  // by optimizer
  std::vector<RawSection> groups;
};

using Errors = std::vector<Status>;

/// Adds the file's text; false if it is no TOML.
bool read_toml(std::string_view toml, std::string_view name, RawConfig& raw, Errors& errors);
/// Adds pairs over what is there.
void read_pairs(const ir::OptionList& pairs, RawConfig& raw, Errors& errors);

}  // namespace stepfuse::runtime
