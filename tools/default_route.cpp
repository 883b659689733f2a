// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/default_route.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace stepfuse::tools {

namespace {

constexpr std::array<std::string_view, 4> kNotHidden{"wte", "wpe", "embed", "head"};

}  // namespace

std::string_view default_recipe(std::string_view name, const std::vector<int64_t>& shape) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool hidden = std::none_of(kNotHidden.begin(), kNotHidden.end(),
                                   [&](std::string_view part) { return lower.find(part) != std::string::npos; });
  return shape.size() == 2 && hidden ? "muon" : "adamw";
}

}  // namespace stepfuse::tools
