// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/bound_memory.h"

#include <iterator>

namespace stepfuse::runtime {

Outcome BoundMemory::insert(Range range, const std::string& owner) {
  if (range.bytes == 0) return {};
  const uintptr_t end = range.begin + static_cast<uintptr_t>(range.bytes);
  const auto next = entries_.lower_bound(range.begin);
  const auto clash = [&](const auto& it) {
    return with_hint(fail(StatusCode::InvalidArgument, "{} overlaps {} in memory", owner, it->second.owner),
                     "bind each parameter and gradient to memory of its own; add a tied parameter once");
  };
  if (next != entries_.end() && next->first < end) return clash(next);
  if (next != entries_.begin() && std::prev(next)->second.end > range.begin) return clash(std::prev(next));
  entries_.emplace(range.begin, Entry{end, owner});
  return {};
}

void BoundMemory::erase(Range range) {
  if (range.bytes != 0) entries_.erase(range.begin);
}

}  // namespace stepfuse::runtime
