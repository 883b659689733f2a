// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/absorb_update.h"

#include "compiler/passes/passes.h"

#include <algorithm>
#include <array>

namespace stepfuse::compiler {

using ir::Graph;
using ir::MatmulAttr;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// X' = B X + a X, or X' = X B + a X: a product whose C is one of its factors and whose other factor is square.
struct SelfProduct {
  Node node;
  size_t square;  // operand index of B
};

std::optional<SelfProduct> as_self_product(const Graph& out, ValueId id) {
  const Node& node = out.node(id);
  if (node.op != Op::Matmul || node.num_operands != 5) return std::nullopt;
  const auto flags = std::get<MatmulAttr>(node.attr);
  // a / alpha goes on the diagonal, so alpha must be known not to be 0, and both must be scalars of the step.
  const auto alpha = constant_of(out, node.operands[3]);
  if (!alpha || *alpha == 0 || !out.is_scalar(node.operands[4])) return std::nullopt;
  for (size_t square : {size_t{0}, size_t{1}}) {
    const size_t other = 1 - square;
    const bool other_transposed = other == 0 ? flags.trans_a : flags.trans_b;
    const ir::Shape& shape = out.node(node.operands[square]).type.shape;
    if (node.operands[2] == node.operands[other] && !other_transposed && shape.from_end(0) == shape.from_end(1))
      return SelfProduct{node, square};
  }
  return std::nullopt;
}

/// d * p with a scalar d, or p itself.
std::pair<ValueId, ValueId> scaled(Graph& out, ValueId id) {
  const Node node = out.node(id);
  if (node.op == Op::Mul && out.is_scalar(node.operands[0])) return {node.operands[0], node.operands[1]};
  if (node.op == Op::Mul && out.is_scalar(node.operands[1])) return {node.operands[1], node.operands[0]};
  return {out.add_const(1), id};
}

/// s * X' + d * p as one product. `sum` is axpy(s, X', d p).
std::optional<ValueId> absorb(Graph& out, const SelfProduct& product, ValueId step, ValueId addend,
                              const ir::Type& type) {
  const Node& node = product.node;
  const double alpha = out.const_value(node.operands[3]);
  const ValueId a = node.operands[4];
  const ValueId diagonal =
      out.is_const(a) ? out.add_const(out.const_value(a) / alpha) : ir::emit(out, Op::Div, {a, out.add_const(alpha)});
  std::array<ValueId, 2> factors{node.operands[0], node.operands[1]};
  factors[product.square] = ir::emit(out, Op::AddDiag, {factors[product.square], diagonal});
  const auto [decay, param] = scaled(out, addend);
  const ValueId new_alpha = multiply_factors(out, step, out.add_const(alpha));
  auto flags = std::get<MatmulAttr>(node.attr);
  flags.symmetric = false;
  return try_emit(out, Op::Matmul, std::array{factors[0], factors[1], param, new_alpha, decay}, flags, type.dtype);
}

}  // namespace

bool absorb_update(Graph& graph, const PassContext& context) {
  const Graph in = graph;
  const auto uses = ir::count_uses(in);
  std::vector<bool> replaces_param(in.size(), false);
  for (const ir::Output& output : in.outputs())
    if (in.input(output.target).kind == ir::InputKind::Param) replaces_param[output.value.v] = true;
  bool absorbed = false;
  bool strided = false;
  const bool changed =
      ir::rewrite(graph, [&](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
        const Node& node = in.node(id);
        if (!replaces_param[id.v] || node.op != Op::Axpy || !out.is_scalar(operands[0]) ||
            uses[node.operands[1].v] != 1)
          return std::nullopt;
        if (out.is_scalar(operands[1]) || out.is_scalar(operands[2]) ||
            out.node(operands[2]).type.shape != node.type.shape)
          return std::nullopt;
        if (is_transposed_view(out, scaled(out, operands[2]).second)) return std::nullopt;
        const auto product = as_self_product(out, operands[1]);
        if (!product) return std::nullopt;
        if (!has_plain_rows(out, scaled(out, operands[2]).second, context.layouts)) {
          strided = true;
          return std::nullopt;
        }
        const auto update = absorb(out, *product, operands[0], operands[2], node.type);
        absorbed = absorbed || update.has_value();
        return update;
      });
  if (absorbed)
    context.record({"absorb_update",
                    in.name,
                    true,
                    "no step of this plan can be skipped, so the last product writes the parameter",
                    "the update's write and read, and one launch",
                    {"a kernel for the update, which writes the parameter from the product"}});
  if (strided)
    context.record({"absorb_update",
                    in.name,
                    false,
                    "the elements of the parameter's rows are not side by side, and a product writes only such rows",
                    {},
                    {"a parameter with a column stride of 1: one launch less"}});
  return changed;
}

}  // namespace stepfuse::compiler
