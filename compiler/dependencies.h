// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace stepfuse::compiler {

/// Elementwise ops and reductions on tensors: what a generated kernel can hold.
bool is_fusible(const ir::Graph& graph, ir::ValueId id);

/// The value whose memory `id` looks at: itself unless it is a view.
ir::ValueId view_base(const ir::Graph& graph, ir::ValueId id);

struct Reader {
  ir::ValueId id;  // never a view
  bool through_view;
};

/// For each value, the non-view nodes that read it or a view of it.
std::vector<std::vector<Reader>> readers_of(const ir::Graph& graph);

/// Units of execution: nodes of one cluster (>= 0) are one, every other tensor op is one by itself; views, inputs and
/// scalars are none. Gives the units in an order in which each runs after those it reads, or nothing when units wait
/// for each other; then `stuck` holds their clusters.
struct Unit {
  int32_t cluster = -1;            // -1: a single op
  std::vector<ir::ValueId> nodes;  // in graph order
};
std::optional<std::vector<Unit>> order_units(const ir::Graph& graph, const std::vector<int32_t>& cluster,
                                             std::vector<int32_t>* stuck = nullptr);

/// The clusters that wait for each other, if any do.
std::optional<std::vector<int32_t>> find_cycle(const ir::Graph& graph, const std::vector<int32_t>& cluster);

}  // namespace stepfuse::compiler
