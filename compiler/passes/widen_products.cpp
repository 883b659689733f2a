// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/widen_products.h"

#include "compiler/passes/passes.h"

namespace stepfuse::compiler {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

bool reads_bf16_product(const Graph& graph) {
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(ValueId{i});
    if (node.op == Op::Matmul && graph.node(node.operands[0]).type.dtype == DType::BF16) return true;
  }
  return false;
}

bool computes_bf16(const Node& node) {
  const bool computes =
      ir::is_elementwise(node.op) || ir::is_reduce(node.op) || node.op == Op::Matmul || node.op == Op::AddDiag;
  return !node.type.scalar && node.type.dtype == DType::BF16 && computes;
}

}  // namespace

bool widen_products(Graph& graph, const PassContext& context) {
  if (!reads_bf16_product(graph)) return false;
  if (context.target.bf16_products) {
    context.record({"widen_products",
                    graph.name,
                    false,
                    fmt::format("{} multiplies bf16 matrices in hardware", context.target.name),
                    {},
                    {}});
    return false;
  }
  const Graph in = graph;
  std::vector<bool> is_output(in.size(), false);
  for (const ir::Output& output : in.outputs()) is_output[output.value.v] = true;
  const bool changed =
      ir::rewrite(graph, [&](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
        const Node& node = in.node(id);
        const bool view = ir::is_view(node.op);
        if (is_output[id.v] || !(computes_bf16(node) || view)) return std::nullopt;
        if (node.op == Op::Cast && out.node(operands[0]).type.dtype == DType::F32) return operands[0];
        Node wide = node;
        std::copy(operands.begin(), operands.end(), wide.operands.begin());
        wide.type.dtype = view ? out.node(operands[0]).type.dtype : DType::F32;
        return out.add_node(wide);
      });
  context.record({"widen_products",
                  in.name,
                  true,
                  fmt::format("{} has no matrix units for bf16: the iteration runs in f32", context.target.name),
                  "conversions around every product",
                  {"bf16 products in software: slower, and less exact"}});
  return changed;
}

}  // namespace stepfuse::compiler
