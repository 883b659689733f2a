// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace stepfuse {

enum class LogLevel : uint8_t { Error, Warn, Info, Debug };
std::string_view log_level_name(LogLevel level);  // "error", "warn", "info", "debug"

/// Messages to the program that embeds us. Nothing is said on the happy path except at Info and Debug. Thread-safe: the
/// sink is called by one thread at a time.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view message)>;

  /// Messages less urgent than `threshold` are dropped; without a threshold all are. Without a sink they go to stderr,
  /// one line each.
  explicit Log(std::optional<LogLevel> threshold = LogLevel::Warn, Sink sink = {});

  bool wants(LogLevel level) const { return threshold_.has_value() && level <= *threshold_; }
  void write(LogLevel level, std::string_view message) const;
  /// The first message of each `key` only.
  void write_once(LogLevel level, std::string_view key, std::string_view message) const;

 private:
  std::optional<LogLevel> threshold_;
  Sink sink_;
  mutable std::mutex mutex_;
  mutable std::set<std::string, std::less<>> said_;
};

}  // namespace stepfuse
