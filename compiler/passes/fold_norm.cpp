// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fold_norm.h"

#include "compiler/passes/passes.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace stepfuse::compiler {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// u / d with a one-element tensor d, read by products only.
bool is_candidate(const Graph& graph, ValueId id, const std::vector<uint32_t>& uses) {
  const Node& node = graph.node(id);
  if (node.op != Op::Div || node.type.scalar || graph.is_scalar(node.operands[0]) || graph.is_scalar(node.operands[1]))
    return false;
  if (!is_one_element(graph, node.operands[1]) || is_one_element(graph, id)) return false;
  if (graph.node(node.operands[0]).type != node.type) return false;
  uint32_t product_reads = 0;
  for (uint32_t i = id.v + 1; i < graph.size(); ++i) {
    const Node& reader = graph.node(ValueId{i});
    if (reader.op == Op::Matmul)
      product_reads += static_cast<uint32_t>(std::count(reader.args().begin(), reader.args().end(), id));
  }
  return product_reads > 0 && product_reads == uses[id.v];
}

/// Rewrites one product that reads x = u / d as factor A, B or as C; `inverse[k]` is 1/d where operand k is such an x.
ValueId scale_product(Graph& out, const Node& node, std::span<const ValueId> operands,
                      const std::array<std::optional<ValueId>, 3>& inverse) {
  std::vector<ValueId> args(operands.begin(), operands.end());
  ValueId alpha = args.size() == 2 ? out.add_const(1) : args.size() == 3 ? args[2] : args[3];
  for (size_t k = 0; k < 2; ++k)
    if (inverse[k]) alpha = multiply_factors(out, alpha, *inverse[k]);
  if (args.size() == 2) {
    args.push_back(alpha);
  } else {
    args[args.size() == 3 ? 2 : 3] = alpha;
  }
  if (inverse[2]) args[4] = multiply_factors(out, args[4], *inverse[2]);
  return ir::emit(out, Op::Matmul, args, node.attr, node.type.dtype);
}

}  // namespace

bool fold_norm(Graph& graph, const PassContext& context) {
  const Graph in = graph;
  const auto uses = ir::count_uses(in);
  std::set<ValueId> candidates;
  for (uint32_t i = 0; i < in.size(); ++i)
    if (is_candidate(in, ValueId{i}, uses)) candidates.insert(ValueId{i});
  if (candidates.empty()) return false;
  if (!context.target.factors_in_memory) {
    context.record({"fold_norm",
                    in.name,
                    false,
                    fmt::format("products on {} take their factors from the host, which would wait for the norm",
                                context.target.name),
                    {},
                    {}});
    return false;
  }
  if (context.target.divides_in_cache) {
    context.record({"fold_norm",
                    in.name,
                    false,
                    fmt::format("on {} the second phase divides while the matrix is in cache; undivided "
                                "products would overflow f32 above a norm of 1e19",
                                context.target.name),
                    {},
                    {"1/norm in alpha and beta: one read and write of the matrix less"}});
    return false;
  }
  if (context.members > 1) {
    context.record(
        {"fold_norm",
         in.name,
         false,
         fmt::format("{} matrices run as batches and each has its own norm; the fused kernel's second phase divides",
                     context.members),
         {},
         {"1/norm in alpha and beta: one value per product"}});
    return false;
  }
  std::map<ValueId, ValueId> inverse_of;  // candidate (old id) -> 1/d (new id)
  const bool changed =
      ir::rewrite(graph, [&](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
        const Node& node = in.node(id);
        if (candidates.contains(id)) {
          inverse_of[id] = ir::emit(out, Op::Div, {out.add_const(1), operands[1]}, {}, ir::math_dtype(node.type.dtype));
          return operands[0];
        }
        if (node.op != Op::Matmul) return std::nullopt;
        std::array<std::optional<ValueId>, 3> inverse;
        const size_t matrices = node.num_operands == 5 ? 3 : 2;
        for (size_t k = 0; k < matrices; ++k)
          if (const auto it = inverse_of.find(node.operands[k]); it != inverse_of.end()) inverse[k] = it->second;
        if (!inverse[0] && !inverse[1] && !inverse[2]) return std::nullopt;
        return scale_product(out, node, operands, inverse);
      });
  for (ValueId id : candidates)
    context.record({"fold_norm",
                    value_label(in, id),
                    true,
                    "only products read the divided matrix: 1/norm goes into their alpha and beta",
                    "one write and one read of the matrix",
                    {"divide in the fused kernel's second phase"}});
  return changed;
}

}  // namespace stepfuse::compiler
