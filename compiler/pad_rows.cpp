// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/pad_rows.h"

#include "compiler/dependencies.h"
#include "compiler/passes/passes.h"

#include <algorithm>
#include <numeric>

namespace stepfuse::compiler {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// A product's result, or a matrix that one reads, through views or not.
std::vector<bool> matrices_of_products(const Graph& graph) {
  std::vector<bool> found(graph.size(), false);
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(ValueId{i});
    if (node.op != Op::Matmul) continue;
    found[i] = true;
    for (const ValueId operand : node.args())
      if (!graph.is_scalar(operand) && !is_one_element(graph, operand)) found[view_base(graph, operand).v] = true;
  }
  return found;
}

/// Sums are stored dense, and so is what a copy takes as it lies. A batch stays in one line for reductions over all of
/// it.
bool can_be_padded(const GroupPlan& group, const ScratchBuffer& buffer, uint32_t index) {
  const Node& node = group.graph.node(buffer.value);
  if (buffer.symbolic || node.type.shape.rank < 2 || ir::is_reduce(node.op)) return false;
  if (node.type.shape.from_end(2) != ir::Extent::of(1)) return false;
  return std::none_of(group.steps.begin(), group.steps.end(), [&](const GroupStep& step) {
    const Slot slot{Slot::Kind::Scratch, index};
    return step.kind == StepKind::Copy && (step.from.slot == slot || step.to == slot);
  });
}

}  // namespace

void pad_rows(GroupPlan& group, const PassContext& context) {
  if (context.target.row_bytes == 0) return;
  const std::vector<bool> wanted = matrices_of_products(group.graph);
  for (uint32_t index = 0; index < group.buffers.size(); ++index) {
    ScratchBuffer& buffer = group.buffers[index];
    if (!wanted[buffer.value.v] || !can_be_padded(group, buffer, index)) continue;
    const ir::Type& type = group.graph.node(buffer.value).type;
    const int64_t columns = type.shape.from_end(0).value();
    const int64_t bytes = ir::dtype_bytes(type.dtype);
    // Of a row vector there is no second row.
    if (columns * bytes % context.target.row_bytes == 0 || type.shape.from_end(1) == ir::Extent::of(1)) continue;
    const int64_t unit = context.target.row_bytes / bytes;
    buffer.pitch = (columns + unit - 1) / unit * unit;
    buffer.bytes = type.shape.from_end(1).value() * buffer.pitch * bytes;
    context.record({"pad_rows",
                    value_label(group.graph, buffer.value),
                    true,
                    fmt::format("products on {} want rows at multiples of {} bytes; these have {}", context.target.name,
                                context.target.row_bytes, columns * bytes),
                    {},
                    {"rows without gaps"}});
  }
}

}  // namespace stepfuse::compiler
