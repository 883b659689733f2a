// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace stepfuse::runtime {

/// The metadata of an entry, read without trust: what is missing or of another type is empty, or 0.
class Metadata {
 public:
  explicit Metadata(const std::string& text) : json_(nlohmann::json::parse(text, nullptr, false)) {}

  std::string text(const char* name) const {
    const auto* value = find(name);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }
  int64_t number(const char* name) const {
    const auto* value = find(name);
    return value != nullptr && value->is_number_integer() ? value->get<int64_t>() : 0;
  }

 private:
  const nlohmann::json* find(const char* name) const {
    if (!json_.is_object()) return nullptr;
    const auto it = json_.find(name);
    return it != json_.end() ? &*it : nullptr;
  }

  nlohmann::json json_;
};

}  // namespace stepfuse::runtime
