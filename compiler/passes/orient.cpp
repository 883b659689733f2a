// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/orient.h"

#include "compiler/passes/passes.h"

#include <algorithm>

namespace stepfuse::compiler {

using ir::Graph;
using ir::MatmulAttr;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

bool is_transpose(const Graph& graph, ValueId id) { return graph.node(id).op == Op::Transpose; }

ValueId strip(const Graph& graph, ValueId id) { return is_transpose(graph, id) ? graph.node(id).operands[0] : id; }

/// `value` keeps the name; what the old readers see is its transpose.
ValueId transposed(Graph& out, ValueId value, const std::string& name) {
  if (out.value_name(value).empty()) out.set_name(value, name);
  return ir::emit(out, Op::Transpose, {value});
}

/// op(x^T, y^T, scalars) = op(x, y, scalars)^T.
std::optional<ValueId> pass_elementwise(Graph& out, const Node& node, std::span<const ValueId> operands,
                                        const std::string& name) {
  std::array<ValueId, ir::kMaxOperands> inner{};
  bool any = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool neutral = out.is_scalar(operands[i]) || is_one_element(out, operands[i]);
    if (!neutral && !is_transpose(out, operands[i])) return std::nullopt;
    any = any || !neutral;
    inner[i] = strip(out, operands[i]);
  }
  if (!any) return std::nullopt;
  const ValueId moved =
      ir::emit(out, node.op, std::span<const ValueId>(inner.data(), operands.size()), node.attr, node.type.dtype);
  return transposed(out, moved, name);
}

/// A B + C = (B^T A^T + C^T)^T when C is a transpose, or, without C, when the result has the shape of a transposed
/// operand: it will meet that operand again.
std::optional<ValueId> turn_product(Graph& out, const Node& node, const std::string& name) {
  const auto flags = std::get<MatmulAttr>(node.attr);
  const ValueId a = node.operands[0];
  const ValueId b = node.operands[1];
  const bool has_c = node.num_operands == 5;
  const bool b_turned = is_transpose(out, b) && !flags.trans_b && node.type.shape == out.node(b).type.shape;
  const bool a_turned = is_transpose(out, a) && !flags.trans_a && node.type.shape == out.node(a).type.shape;
  if (has_c ? !is_transpose(out, node.operands[2]) : a_turned == b_turned) return std::nullopt;
  const auto side = [&out](ValueId id, bool transposed) {
    return std::pair(strip(out, id), !(transposed != is_transpose(out, id)));
  };
  const auto [left, trans_left] = side(b, flags.trans_b);
  const auto [right, trans_right] = side(a, flags.trans_a);
  std::vector<ValueId> operands{left, right};
  if (has_c) operands.push_back(strip(out, node.operands[2]));
  for (size_t k = operands.size(); k < node.num_operands; ++k) operands.push_back(node.operands[k]);
  const ValueId turned =
      ir::emit(out, Op::Matmul, operands, MatmulAttr{trans_left, trans_right, false}, node.type.dtype);
  return transposed(out, turned, name);
}

std::optional<ValueId> pass_product(Graph& out, Node node, std::span<const ValueId> operands, const std::string& name) {
  std::copy(operands.begin(), operands.end(), node.operands.begin());
  auto flags = std::get<MatmulAttr>(node.attr);
  if (auto turned = turn_product(out, node, name)) return turned;
  if (!is_transpose(out, operands[0]) && !is_transpose(out, operands[1])) return std::nullopt;
  flags.trans_a = flags.trans_a != is_transpose(out, operands[0]);
  flags.trans_b = flags.trans_b != is_transpose(out, operands[1]);
  node.operands[0] = strip(out, operands[0]);
  node.operands[1] = strip(out, operands[1]);
  node.attr = flags;
  return out.add_node(node);
}

}  // namespace

bool orient_transposes(Graph& graph, const PassContext& context) {
  const Graph in = graph;
  const bool changed =
      ir::rewrite(graph, [&in](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
        const Node& node = in.node(id);
        if (node.type.scalar) return std::nullopt;
        if (node.op == Op::Transpose && is_transpose(out, operands[0])) return strip(out, operands[0]);
        if (ir::is_elementwise(node.op)) return pass_elementwise(out, node, operands, in.value_name(id));
        if (node.op == Op::Matmul) return pass_product(out, node, operands, in.value_name(id));
        return std::nullopt;
      });
  if (changed)
    context.record({"orient",
                    in.name,
                    true,
                    "each matrix is worked on as it is stored; transposes become flags of products",
                    "a transposed copy",
                    {"transpose first: one more read and write of the matrix"}});
  return changed;
}

}  // namespace stepfuse::compiler
