// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/widen_products.h"

#include "compiler/passes/passes.h"

#include <algorithm>

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

/// Products and concatenations take operands of one type: what stayed bf16 joins what was widened.
void match_operands(Graph& out, Node& node) {
  if (node.op != Op::Matmul && node.op != Op::Concat) return;
  const auto dtype = [&](size_t k) { return out.node(node.operands[k]).type.dtype; };
  if (dtype(0) == dtype(1)) return;
  ValueId& narrow = node.operands[dtype(0) == DType::F32 ? 1 : 0];
  narrow = ir::emit(out, Op::Cast, {narrow}, {}, DType::F32);
}

/// The node in f32, or nothing where it may stay as it is. Outputs keep the type of what they replace.
std::optional<ValueId> widen(Graph& out, const Node& node, std::span<const ValueId> operands, bool is_output) {
  if (node.type.scalar || node.type.dtype == DType::Bool) return std::nullopt;
  Node plain = node;
  std::copy(operands.begin(), operands.end(), plain.operands.begin());
  Node wide = plain;
  match_operands(out, wide);
  if (ir::is_view(node.op) || node.op == Op::Concat) {
    wide.type.dtype = out.node(wide.operands[0]).type.dtype;
    if (is_output && wide.type.dtype != node.type.dtype)
      return ir::emit(out, Op::Cast, {out.add_node(wide)}, {}, node.type.dtype);
  } else if (!is_output && computes_bf16(node)) {
    if (node.op == Op::Cast && out.node(operands[0]).type.dtype == DType::F32) return operands[0];
    wide.type.dtype = DType::F32;
  }
  return wide == plain ? std::nullopt : std::optional(out.add_node(wide));
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
        return widen(out, in.node(id), operands, is_output[id.v]);
      });
  if (!changed) return false;
  context.record({"widen_products",
                  in.name,
                  true,
                  fmt::format("{} has no matrix units for bf16: the iteration runs in f32", context.target.name),
                  "conversions around every product",
                  {"bf16 products in software: slower, and less exact"}});
  return true;
}

}  // namespace stepfuse::compiler
