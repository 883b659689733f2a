// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/cast_sink.h"

#include "compiler/passes/passes.h"

namespace stepfuse::compiler {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// Every value of `from` is one of `to`.
bool widens(DType from, DType to) {
  if (from == to) return true;
  if (to == DType::F64) return from != DType::Bool;
  return to == DType::F32 && (from == DType::F16 || from == DType::BF16);
}

/// The op rounds once from its math type, so that rounding may be to the cast's type instead. Not where the node's
/// own type is narrower than its math type: that rounding is part of the recipe.
bool can_round_to(const Graph& graph, const Node& producer, DType to) {
  const bool computes = ir::is_elementwise(producer.op) || producer.op == Op::Matmul;
  if (!computes || producer.op == Op::Select || ir::is_compare(producer.op) || producer.type.dtype == DType::Bool)
    return false;
  const DType math = ir::math_dtype(graph, producer);
  return producer.type.dtype == math && to != DType::Bool && ir::math_dtype(to) == math &&
         dtype_bytes(to) < dtype_bytes(math);
}

/// A widening cast that the reader would do by itself, without changing its math type.
std::optional<ValueId> widened_source(const Graph& out, ValueId operand) {
  const Node& cast = out.node(operand);
  if (cast.op != Op::Cast) return std::nullopt;
  const ValueId source = cast.operands[0];
  const DType from = out.node(source).type.dtype;
  if (from == DType::Bool || !widens(from, cast.type.dtype) || cast.type.dtype == DType::F64) return std::nullopt;
  return source;
}

std::optional<ValueId> sink_cast(Graph& out, const Node& node, std::span<const ValueId> operands, bool only_reader) {
  const Node producer = out.node(operands[0]);
  if (producer.op == Op::Cast) {
    const ValueId source = producer.operands[0];
    const DType from = out.node(source).type.dtype;
    if (from != DType::Bool && widens(from, producer.type.dtype))
      return from == node.type.dtype ? source : ir::emit(out, Op::Cast, {source}, {}, node.type.dtype);
  }
  if (only_reader && can_round_to(out, producer, node.type.dtype)) return with_dtype(out, producer, node.type.dtype);
  return std::nullopt;
}

std::optional<ValueId> drop_widening_operands(Graph& out, const Node& node, std::span<const ValueId> operands) {
  if (!ir::is_elementwise(node.op) || node.op == Op::Cast || node.type.scalar) return std::nullopt;
  Node changed = node;
  bool any = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto source = out.is_scalar(operands[i]) ? std::nullopt : widened_source(out, operands[i]);
    changed.operands[i] = source.value_or(operands[i]);
    any = any || source.has_value();
  }
  return any ? std::optional(out.add_node(changed)) : std::nullopt;
}

}  // namespace

bool sink_casts(Graph& graph, const PassContext&) {
  const Graph in = graph;
  const auto uses = ir::count_uses(in);
  return ir::rewrite(graph, [&](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
    const Node& node = in.node(id);
    if (node.op == Op::Cast) return sink_cast(out, node, operands, uses[node.operands[0].v] == 1);
    return drop_widening_operands(out, node, operands);
  });
}

}  // namespace stepfuse::compiler
