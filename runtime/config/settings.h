// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// Where a value comes from; a later one wins.
enum class Origin : uint8_t { Default, File, Environment, Flag };
std::string_view origin_name(Origin origin);  // "default", "file", "environment", "flag"

/// Text: anything. Size: bytes, as "512M" or "1G". Names: a list by commas. Paths: a list by colons.
enum class SettingKind : uint8_t { Choice, Text, Path, Paths, Count, Size, Names };

/// One setting of the library itself; hyperparameters and routing are not settings. The same key is a flag of the
/// command, an option of the C API and a key of the config's [settings]; the environment variable is its upper-case
/// name behind STEPFUSE_.
struct SettingInfo {
  std::string_view name;
  SettingKind kind;
  std::string_view default_text;
  std::vector<std::string_view> choices;  // Choice, Names; empty: any
  int64_t lo = 0, hi = 0;                 // Count
  std::string_view help;

  std::string variable() const;  // "STEPFUSE_CACHE_DIR"
};

std::span<const SettingInfo> all_settings();

/// A key with its text, and where a person finds it: "--threads", "stepfuse.toml:12", "environment".
struct SettingSource {
  std::string name;
  std::string text;
  std::string where;
};

/// Every setting with its value and origin. Values are checked here, once; an unknown key and an unknown variable of
/// the environment that begins with STEPFUSE_ are errors with the nearest name.
class Settings {
 public:
  struct Value {
    std::string text;
    Origin origin = Origin::Default;
    std::string where;  // empty for Default
    int64_t number = 0;
    std::vector<std::string> list;
  };

  /// Environment variables as "NAME=value".
  static Result<Settings> resolve(const std::vector<SettingSource>& flags, const std::vector<std::string>& environment,
                                  const std::vector<SettingSource>& file = {});
  static std::vector<std::string> process_environment();

  const Value& at(std::string_view name) const;  // a name of the table
  const std::string& text(std::string_view name) const { return at(name).text; }
  int64_t number(std::string_view name) const { return at(name).number; }  // Count, Size (bytes)
  const std::vector<std::string>& list(std::string_view name) const { return at(name).list; }
  bool is(std::string_view name, std::string_view choice) const { return text(name) == choice; }

 private:
  std::vector<Value> values_;  // in the order of all_settings()
};

}  // namespace stepfuse::runtime
