// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/stage_operands.h"

#include "compiler/dependencies.h"
#include "compiler/passes/passes.h"

#include <algorithm>

namespace stepfuse::compiler {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

bool product_takes(const Graph& graph, ValueId operand, size_t index, const std::vector<Strides>& layouts) {
  const Node& base = graph.node(view_base(graph, operand));
  if (base.op != Op::Input) return true;
  const Strides& strides = layouts[std::get<ir::InputAttr>(base.attr).index];
  return index == 2 ? product_writes(strides) : product_reads(strides);
}

}  // namespace

void stage_operands(Graph& graph, const PassContext& context) {
  if (context.layouts.empty()) return;
  const Graph in = graph;
  ir::rewrite(graph, [&](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
    Node node = in.node(id);
    if (node.op != Op::Matmul) return std::nullopt;
    bool staged = false;
    std::copy(operands.begin(), operands.end(), node.operands.begin());
    for (size_t k = 0; k < (node.num_operands == 5 ? 3U : 2U); ++k) {
      if (product_takes(in, in.node(id).operands[k], k, context.layouts)) continue;
      node.operands[k] = ir::emit(out, Op::Cast, {operands[k]}, {}, out.node(operands[k]).type.dtype);
      staged = true;
      context.record({"layout",
                      value_label(in, in.node(id).operands[k]),
                      true,
                      "a product reads rows or columns whose elements are side by side: it is copied first",
                      {},
                      {"a row or column stride of 1: one launch less"}});
    }
    return staged ? std::optional(out.add_node(node)) : std::nullopt;
  });
}

}  // namespace stepfuse::compiler
