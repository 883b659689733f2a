// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/mark_symmetric.h"

#include "compiler/passes/passes.h"

#include <algorithm>
#include <set>

namespace stepfuse::compiler {

using ir::Graph;
using ir::MatmulAttr;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

bool product_is_symmetric(const Node& node, std::span<const ValueId> operands, const std::set<ValueId>& symmetric) {
  const auto flags = std::get<MatmulAttr>(node.attr);
  const bool same = operands[0] == operands[1];
  const bool gram = same && flags.trans_a != flags.trans_b;
  const bool square_of_symmetric = same && symmetric.contains(operands[0]);
  return (gram || square_of_symmetric) && (operands.size() < 5 || symmetric.contains(operands[2]));
}

/// Elementwise with one-element companions keeps symmetry when every matrix operand has it.
bool elementwise_is_symmetric(const Graph& out, const Node& node, std::span<const ValueId> operands,
                              const std::set<ValueId>& symmetric) {
  bool any = false;
  for (ValueId id : operands) {
    if (out.is_scalar(id) || is_one_element(out, id)) continue;
    if (!symmetric.contains(id)) return false;
    any = true;
  }
  return any && node.type.shape.rank >= 2;
}

}  // namespace

bool mark_symmetric(Graph& graph, const PassContext& context) {
  const Graph in = graph;
  std::set<ValueId> symmetric;  // of the new graph
  int64_t marked = 0;
  const bool changed =
      ir::rewrite(graph, [&](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
        const Node& node = in.node(id);
        if (node.type.scalar) return std::nullopt;
        Node copy = node;
        std::copy(operands.begin(), operands.end(), copy.operands.begin());
        bool is_symmetric = false;
        if (node.op == Op::Matmul) {
          is_symmetric = product_is_symmetric(node, operands, symmetric);
          auto flags = std::get<MatmulAttr>(node.attr);
          flags.symmetric = flags.symmetric || is_symmetric;
          copy.attr = flags;
          marked += is_symmetric ? 1 : 0;
        } else if (ir::is_elementwise(node.op) || node.op == Op::AddDiag || node.op == Op::Transpose) {
          is_symmetric = elementwise_is_symmetric(out, node, operands, symmetric);
        }
        const ValueId result = out.add_node(copy);
        if (is_symmetric) symmetric.insert(result);
        return result;
      });
  if (marked > 0) {
    const bool used = context.target.symmetric_products;
    context.record({"mark_symmetric",
                    in.name,
                    used,
                    fmt::format("{} products give symmetric matrices", marked),
                    used ? "up to half of their multiplications, in f32" : "",
                    {"full products"}});
  }
  return changed;
}

}  // namespace stepfuse::compiler
