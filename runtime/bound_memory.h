// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/layout.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace stepfuse::runtime {

/// The memory of tensors that callers have bound; no two may share a byte.
class BoundMemory {
 public:
  /// The bytes of a tensor after its first: runs of `run` bytes whose distances are multiples of `pitch`, the last of
  /// which ends after `bytes`. Pitch 0: one run.
  struct Footprint {
    int64_t bytes = 0;
    int64_t run = 0;
    int64_t pitch = 0;
    friend bool operator==(const Footprint&, const Footprint&) = default;
  };
  static Footprint footprint(const std::vector<int64_t>& shape, const compiler::Strides& strides,
                             int64_t element_bytes);

  struct Range {
    uintptr_t begin = 0;
    Footprint footprint;
    friend bool operator==(const Range&, const Range&) = default;
  };
  using Owner = uint64_t;
  /// Nothing when `range` is free; else the owner of memory that it overlaps, or cannot be shown not to. Two tensors
  /// whose spans overlap are known to be apart when their runs are so modulo the greatest pitch that serves both:
  /// interleaved tensors, column blocks of one matrix.
  std::optional<Owner> insert(const Range& range, Owner owner);
  void erase(const Range& range);

 private:
  struct Entry {
    Range range;
    Owner owner;
  };
  using Entries = std::map<uintptr_t, Entry>;  // by first byte, which no two tensors share
  static std::optional<Owner> find_clash(const Entries& entries, int64_t longest, const Range& range);

  Entries dense_;    // their spans do not overlap
  Entries strided_;  // their spans may
  int64_t longest_strided_ = 0;
};

}  // namespace stepfuse::runtime
