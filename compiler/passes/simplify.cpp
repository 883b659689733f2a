// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify.h"

#include "compiler/passes/passes.h"
#include "ir/scalar_eval.h"

namespace stepfuse::compiler {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// `id` itself if it already has the type the node would have given.
std::optional<ValueId> if_same_type(const Graph& out, const Node& node, ValueId id) {
  return out.node(id).type == node.type ? std::optional(id) : std::nullopt;
}

std::optional<ValueId> fold_constants(Graph& out, const Node& node, std::span<const ValueId> operands) {
  if (!node.type.scalar || node.op == Op::Const || node.op == Op::Fresh) return std::nullopt;
  std::array<double, ir::kMaxOperands> values{};
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto value = constant_of(out, operands[i]);
    if (!value) return std::nullopt;
    values[i] = *value;
  }
  return out.add_const(ir::evaluate_scalar_op(node.op, std::span(values.data(), operands.size())));
}

std::optional<ValueId> simplify_select(const Graph& out, const Node& node, std::span<const ValueId> operands) {
  if (operands[1] == operands[2]) return if_same_type(out, node, operands[1]);
  const auto condition = constant_of(out, operands[0]);
  if (!condition) return std::nullopt;
  return if_same_type(out, node, *condition != 0 ? operands[1] : operands[2]);
}

/// Two negations or transposes, unless the first one rounds.
std::optional<ValueId> simplify_pair(const Graph& out, const Node& node, const Node& inner) {
  if (inner.op != node.op || inner.type.dtype != node.type.dtype) return std::nullopt;
  return if_same_type(out, node, inner.operands[0]);
}

std::optional<ValueId> simplify_node(const Graph& out, const Node& node, std::span<const ValueId> operands) {
  const Op op = node.op;
  if (op == Op::Mul) {
    if (constant_of(out, operands[0]) == 1.0) return if_same_type(out, node, operands[1]);
    if (constant_of(out, operands[1]) == 1.0) return if_same_type(out, node, operands[0]);
  }
  if (op == Op::Div && constant_of(out, operands[1]) == 1.0) return if_same_type(out, node, operands[0]);
  if (op == Op::Cast) return if_same_type(out, node, operands[0]);
  if (op == Op::Select) return simplify_select(out, node, operands);
  if (op == Op::Neg || op == Op::Transpose) return simplify_pair(out, node, out.node(operands[0]));
  return std::nullopt;
}

}  // namespace

bool simplify(Graph& graph, const PassContext&) {
  const Graph in = graph;
  return ir::rewrite(graph, [&in](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
    const Node& node = in.node(id);
    if (auto folded = fold_constants(out, node, operands)) return folded;
    return simplify_node(out, node, operands);
  });
}

}  // namespace stepfuse::compiler
