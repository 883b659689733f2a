// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/cse.h"

#include <utility>

namespace stepfuse::compiler {

using ir::Graph;
using ir::ValueId;

bool merge_equal(Graph& graph, const PassContext&) {
  const Graph in = graph;
  return ir::rewrite(graph, [&in](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
    if (!ir::is_commutative(in.node(id).op) || operands[0] <= operands[1]) return std::nullopt;
    ir::Node swapped = in.node(id);
    swapped.operands[0] = operands[1];
    swapped.operands[1] = operands[0];
    return out.add_node(swapped);
  });
}

}  // namespace stepfuse::compiler
