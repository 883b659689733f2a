// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/passes.h"

namespace stepfuse::compiler {

using ir::Graph;
using ir::Op;
using ir::ValueId;

std::string value_label(const Graph& graph, ValueId id) {
  const std::string& name = graph.value_name(id);
  return "%" + (name.empty() ? std::to_string(id.v) : name);
}

std::optional<double> constant_of(const Graph& graph, ValueId id) {
  return graph.is_const(id) ? std::optional(graph.const_value(id)) : std::nullopt;
}

bool is_one_element(const Graph& graph, ValueId id) {
  const ir::Type& type = graph.node(id).type;
  if (type.scalar) return false;
  for (size_t i = 0; i < type.shape.rank; ++i)
    if (type.shape.dims[i] != ir::Extent::of(1)) return false;
  return true;
}

ValueId with_dtype(Graph& out, const ir::Node& node, ir::DType dtype) {
  ir::Node changed = node;
  changed.type.dtype = dtype;
  return out.add_node(changed);
}

std::optional<ValueId> try_emit(Graph& out, Op op, std::span<const ValueId> operands, const ir::Attr& attr,
                                ir::DType dtype) {
  if (!ir::infer_type(out, op, operands, attr, dtype)) return std::nullopt;
  return ir::emit(out, op, operands, attr, dtype);
}

ValueId multiply_factors(Graph& out, ValueId a, ValueId b) {
  if (constant_of(out, a) == 1.0) return b;
  if (constant_of(out, b) == 1.0) return a;
  if (out.is_const(a) && out.is_const(b)) return out.add_const(out.const_value(a) * out.const_value(b));
  return ir::emit(out, Op::Mul, {a, b});
}

bool has_plain_rows(const Graph& graph, ValueId id, const std::vector<Strides>& layouts) {
  while (ir::is_view(graph.node(id).op)) id = graph.node(id).operands[0];
  const ir::Node& node = graph.node(id);
  return layouts.empty() || node.op != Op::Input || product_writes(layouts[std::get<ir::InputAttr>(node.attr).index]);
}

bool is_transposed_view(const Graph& graph, ValueId id) {
  bool transposed = false;
  for (; ir::is_view(graph.node(id).op); id = graph.node(id).operands[0])
    transposed = transposed != (graph.node(id).op == Op::Transpose);
  return transposed;
}

}  // namespace stepfuse::compiler
