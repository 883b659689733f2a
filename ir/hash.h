// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepfuse::ir {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  std::string hex() const;  // 32 digits
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

/// XXH3-128.
Hash128 hash_bytes(std::string_view bytes);

/// A hash of what the live graph computes: input kinds, keys and types, ops, attributes, types, operands, placements of
/// tensors, outputs. Names, defaults, ranges, dead values and the order in which independent values were made do not
/// matter. Stable across runs and machines.
Hash128 structural_hash(const Graph& graph);

}  // namespace stepfuse::ir
