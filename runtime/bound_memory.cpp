// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/bound_memory.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace stepfuse::runtime {

namespace {

uintptr_t end_of(const BoundMemory::Range& range) {
  return range.begin + static_cast<uintptr_t>(range.footprint.bytes);
}

/// Whether two ranges, the spans of which overlap, share no byte because their runs are apart modulo a common pitch.
bool runs_are_apart(const BoundMemory::Range& a, const BoundMemory::Range& b) {
  const auto pitch = static_cast<uintptr_t>(std::gcd(a.footprint.pitch, b.footprint.pitch));
  if (pitch == 0) return false;
  const uintptr_t from_a_to_b = (b.begin % pitch + pitch - a.begin % pitch) % pitch;
  const uintptr_t from_b_to_a = (pitch - from_a_to_b) % pitch;
  return from_a_to_b >= static_cast<uintptr_t>(a.footprint.run) &&
         from_b_to_a >= static_cast<uintptr_t>(b.footprint.run);
}

bool may_overlap(const BoundMemory::Range& a, const BoundMemory::Range& b) {
  return a.begin < end_of(b) && b.begin < end_of(a) && !runs_are_apart(a, b);
}

}  // namespace

BoundMemory::Footprint BoundMemory::footprint(const std::vector<int64_t>& shape, const compiler::Strides& strides,
                                              int64_t element_bytes) {
  Footprint result{compiler::span_elements(shape, strides) * element_bytes, element_bytes, 0};
  if (strides.empty() || result.bytes == 0) return {result.bytes, result.bytes, 0};
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // stride in bytes, extent
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) dimensions.emplace_back(strides[d] * element_bytes, shape[d]);
  std::sort(dimensions.begin(), dimensions.end());
  for (const auto& [stride, extent] : dimensions) {
    if (result.pitch == 0 && stride == result.run) {
      result.run *= extent;
    } else {
      result.pitch = std::gcd(result.pitch, stride);
    }
  }
  return result;
}

std::optional<BoundMemory::Owner> BoundMemory::find_clash(const Entries& entries, int64_t longest, const Range& range) {
  const auto reach = std::min(range.begin, static_cast<uintptr_t>(longest));
  for (auto it = entries.lower_bound(range.begin - reach); it != entries.end() && it->first < end_of(range); ++it)
    if (may_overlap(it->second.range, range)) return it->second.owner;
  return std::nullopt;
}

std::optional<BoundMemory::Owner> BoundMemory::insert(const Range& range, Owner owner) {
  if (range.footprint.bytes == 0) return std::nullopt;
  const auto next = dense_.lower_bound(range.begin);
  // Of dense ranges before this one only the last can reach into it.
  for (auto it = next == dense_.begin() ? next : std::prev(next); it != dense_.end() && it->first < end_of(range); ++it)
    if (may_overlap(it->second.range, range)) return it->second.owner;
  if (!strided_.empty())
    if (const auto clash = find_clash(strided_, longest_strided_, range)) return clash;
  if (range.footprint.pitch == 0) {
    dense_.emplace_hint(next, range.begin, Entry{range, owner});
  } else {
    longest_strided_ = std::max(longest_strided_, range.footprint.bytes);
    strided_.emplace(range.begin, Entry{range, owner});
  }
  return std::nullopt;
}

void BoundMemory::erase(const Range& range) {
  if (range.footprint.bytes != 0) (range.footprint.pitch != 0 ? strided_ : dense_).erase(range.begin);
}

}  // namespace stepfuse::runtime
