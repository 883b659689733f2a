// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/nearest.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace stepfuse {

namespace {

// Longer names are not typing mistakes of anything we know, and the distance is quadratic.
constexpr size_t kMaxLength = 64;

template <class Text>
std::string nearest(std::string_view name, std::span<const Text> candidates) {
  if (name.empty() || name.size() > kMaxLength) return {};
  size_t best = std::max<size_t>(1, name.size() / 3) + 1;
  std::string_view found;
  for (std::string_view candidate : candidates) {
    if (candidate.size() > name.size() + best || name.size() > candidate.size() + best) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance >= best) continue;
    best = distance;
    found = candidate;
  }
  return std::string(found);
}

std::string question(const std::string& name) { return name.empty() ? name : fmt::format("did you mean '{}'?", name); }

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  return nearest(name, candidates);
}

std::string nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  return nearest(name, candidates);
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  return question(nearest(name, candidates));
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  return question(nearest(name, candidates));
}

std::string suggestion(std::string_view name, std::span<const std::string_view> candidates, std::string_view list) {
  std::string hint = did_you_mean(name, candidates);
  if (!hint.empty()) hint += ' ';
  return hint.append(list);
}

}  // namespace stepfuse
