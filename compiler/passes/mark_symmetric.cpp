// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/mark_symmetric.h"

#include "compiler/passes/passes.h"

#include <algorithm>
#include <map>
#include <optional>

namespace stepfuse::compiler {

using ir::Graph;
using ir::MatmulAttr;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// Symmetric values of the new graph, each with the matrix that it is a polynomial of: those of one matrix commute, so
/// that their products are symmetric too.
using Families = std::map<ValueId, ValueId>;

std::optional<ValueId> family_of(const Families& symmetric, ValueId id) {
  const auto found = symmetric.find(id);
  return found == symmetric.end() ? std::nullopt : std::optional(found->second);
}

/// Whether a value is symmetric, and of which family; without one it begins its own.
struct Symmetry {
  bool symmetric = false;
  std::optional<ValueId> family;
};

Symmetry symmetry_of_product(const Node& node, std::span<const ValueId> operands, const Families& symmetric) {
  const auto flags = std::get<MatmulAttr>(node.attr);
  const bool gram = operands[0] == operands[1] && flags.trans_a != flags.trans_b;
  const auto a = family_of(symmetric, operands[0]);
  const auto b = family_of(symmetric, operands[1]);
  const bool commute = a && a == b;
  if (!gram && !commute) return {};
  if (operands.size() < 5) return {true, commute ? a : std::nullopt};
  const auto c = family_of(symmetric, operands[2]);
  return {c.has_value(), commute && c == a ? a : std::nullopt};
}

/// Whether the op gives a linear combination of the matrices among its operands.
bool is_linear(const Graph& out, Op op, std::span<const ValueId> operands) {
  const auto is_factor = [&](ValueId id) { return out.is_scalar(id) || is_one_element(out, id); };
  if (op == Op::Neg || op == Op::Cast || op == Op::AddDiag || op == Op::Transpose) return true;
  if (op == Op::Add || op == Op::Sub) return !is_factor(operands[0]) && !is_factor(operands[1]);
  if (op == Op::Axpy) return is_factor(operands[0]) && !is_factor(operands[1]) && !is_factor(operands[2]);
  if (op == Op::Mul) return is_factor(operands[0]) != is_factor(operands[1]);
  return op == Op::Div && is_factor(operands[1]);
}

/// Elementwise with one-element companions keeps symmetry when every matrix operand has it.
Symmetry symmetry_of_elements(const Graph& out, const Node& node, std::span<const ValueId> operands,
                              const Families& symmetric) {
  std::optional<ValueId> family;
  bool one_family = is_linear(out, node.op, operands);
  for (ValueId id : operands) {
    if (out.is_scalar(id) || is_one_element(out, id)) continue;
    const auto of_operand = family_of(symmetric, id);
    if (!of_operand) return {};
    one_family = one_family && (!family || family == of_operand);
    family = of_operand;
  }
  return {family.has_value() && node.type.shape.rank >= 2, one_family ? family : std::nullopt};
}

}  // namespace

bool mark_symmetric(Graph& graph, const PassContext& context) {
  const Graph in = graph;
  Families symmetric;
  int64_t marked = 0;
  const bool changed =
      ir::rewrite(graph, [&](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
        const Node& node = in.node(id);
        if (node.type.scalar) return std::nullopt;
        Node copy = node;
        std::copy(operands.begin(), operands.end(), copy.operands.begin());
        Symmetry symmetry;
        if (node.op == Op::Matmul) {
          symmetry = symmetry_of_product(node, operands, symmetric);
          auto flags = std::get<MatmulAttr>(node.attr);
          flags.symmetric = flags.symmetric || symmetry.symmetric;
          copy.attr = flags;
          marked += symmetry.symmetric ? 1 : 0;
        } else if (ir::is_elementwise(node.op) || node.op == Op::AddDiag || node.op == Op::Transpose) {
          symmetry = symmetry_of_elements(out, node, operands, symmetric);
        }
        const ValueId result = out.add_node(copy);
        if (symmetry.symmetric) symmetric.emplace(result, symmetry.family.value_or(result));
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
