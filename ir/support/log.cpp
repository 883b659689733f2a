// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/log.h"

#include <cstdio>
#include <utility>

namespace stepfuse {

std::string_view log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::Error:
      return "error";
    case LogLevel::Warn:
      return "warn";
    case LogLevel::Info:
      return "info";
    case LogLevel::Debug:
      return "debug";
  }
  return "error";
}

Log::Log(std::optional<LogLevel> threshold, Sink sink) : threshold_(threshold), sink_(std::move(sink)) {}

void Log::write(LogLevel level, std::string_view message) const {
  if (!wants(level)) return;
  const std::lock_guard lock(mutex_);
  if (sink_) {
    sink_(level, message);
    return;
  }
  const std::string_view name = log_level_name(level);
  std::fprintf(stderr, "stepfuse: %.*s: %.*s\n", static_cast<int>(name.size()), name.data(),
               static_cast<int>(message.size()), message.data());
}

void Log::write_once(LogLevel level, std::string_view key, std::string_view message) const {
  if (!wants(level)) return;
  {
    const std::lock_guard lock(mutex_);
    if (!said_.emplace(key).second) return;
  }
  write(level, message);
}

}  // namespace stepfuse
