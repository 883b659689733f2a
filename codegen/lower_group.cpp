// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/lower_group.h"

#include <algorithm>

namespace stepfuse::codegen {

using compiler::Access;
using compiler::GroupPlan;
using compiler::GroupStep;
using compiler::StepKind;
using ir::Graph;
using ir::ValueId;

namespace {

/// A matrix in memory: row stride, and whether the window runs along columns.
struct Stored {
  int64_t ld;
  bool transposed;
};

Stored stored(const Access& access) {
  const bool rows_contiguous = access.dims[2] == 1 || access.strides[2] == 1;
  // A BLAS wants a row stride of at least 1, even for an empty matrix.
  if (rows_contiguous) return {std::max({access.strides[1], access.dims[2], int64_t{1}}), false};
  return {std::max({access.strides[2], access.dims[1], int64_t{1}}), true};
}

/// Collects the scalars a group's steps read, in the order of the slots.
class GroupLowering {
 public:
  GroupLowering(const GroupPlan& group, ir::Mode mode) : group_(group), graph_(group.graph), mode_(mode) {}

  LoweredGroup run() {
    LoweredGroup out;
    out.plan = &group_;
    for (const GroupStep& step : group_.steps) out.steps.push_back(lower_step(step));
    lower_scalars(out);
    return out;
  }

 private:
  LoweredStep lower_step(const GroupStep& step) {
    LoweredStep out{step.kind, step.node, {}, {}, {}};
    switch (step.kind) {
      case StepKind::Fused:
        for (size_t p = 0; p < step.phases.size(); ++p) out.phases.push_back(lower_phase_of(step, p));
        break;
      case StepKind::Product:
        out.product = lower_product(step.node);
        break;
      case StepKind::AddDiag:
      case StepKind::Concat:
        out.move = lower_move(step);
        break;
      case StepKind::Copy:
        out.move.sources = {step.from};
        out.move.target = compiler::slot_access(group_, step.from.dims, step.to);
        out.move.source_dtype = out.move.target_dtype = slot_dtype(step.from.slot);
        break;
    }
    return out;
  }

  LoweredPhase lower_phase_of(const GroupStep& step, size_t p) {
    LoweredPhase phase = lower_phase(group_, step, p, mode_);
    phase.first_scalar = static_cast<uint32_t>(scalars_.size());
    scalars_.insert(scalars_.end(), phase.scalars.begin(), phase.scalars.end());
    return phase;
  }

  LoweredProduct lower_product(ValueId id) {
    const ir::Node& node = graph_.node(id);
    LoweredProduct out;
    out.a = compiler::access_of(group_, node.operands[0]);
    out.b = compiler::access_of(group_, node.operands[1]);
    out.d = compiler::access_of(group_, id);
    if (node.num_operands == 5) out.c = compiler::access_of(group_, node.operands[2]);
    out.batch = out.d.dims[0];
    out.shape = gemm_shape(id, out);
    out.alpha = factor_of(id, node.num_operands == 5 ? 3 : 2);
    out.beta = factor_of(id, 4);
    return out;
  }

  GemmShape gemm_shape(ValueId id, const LoweredProduct& product) const {
    const ir::Node& node = graph_.node(id);
    const auto flags = std::get<ir::MatmulAttr>(node.attr);
    const Stored a = stored(product.a);
    const Stored b = stored(product.b);
    GemmShape shape;
    shape.m = product.d.dims[1];
    shape.n = product.d.dims[2];
    shape.k = flags.trans_a ? product.a.dims[1] : product.a.dims[2];
    shape.trans_a = flags.trans_a != a.transposed;
    shape.trans_b = flags.trans_b != b.transposed;
    shape.lda = a.ld;
    shape.ldb = b.ld;
    shape.ldd = stored(product.d).ld;
    shape.ab = graph_.node(node.operands[0]).type.dtype;
    shape.d = shape.c = node.type.dtype;
    shape.has_alpha = node.num_operands > 2;
    shape.symmetric = flags.symmetric;
    shape.a_is_b = node.operands[0] == node.operands[1];
    shape.has_c = node.num_operands == 5;
    if (!shape.has_c) return shape;
    shape.c = graph_.node(node.operands[2]).type.dtype;
    shape.ldc = stored(product.c).ld;
    shape.c_is_d = product.c.slot == product.d.slot && product.c.offset == product.d.offset;
    return shape;
  }

  LoweredMove lower_move(const GroupStep& step) {
    const ir::Node& node = graph_.node(step.node);
    LoweredMove out;
    out.target = compiler::access_of(group_, step.node);
    out.target_dtype = node.type.dtype;
    out.source_dtype = graph_.node(node.operands[0]).type.dtype;
    out.sources = {compiler::access_of(group_, node.operands[0])};
    if (step.kind == StepKind::AddDiag) {
      out.diagonal = factor_of(step.node, 1);
      return out;
    }
    out.sources.push_back(compiler::access_of(group_, node.operands[1]));
    out.concat_dim =
        static_cast<uint8_t>(ir::kMaxRank - node.type.shape.rank + std::get<ir::ConcatAttr>(node.attr).dim);
    return out;
  }

  ir::DType slot_dtype(compiler::Slot slot) const {
    if (slot.kind == compiler::Slot::Kind::Input) return graph_.inputs()[slot.index].type.dtype;
    return graph_.node(group_.buffers[slot.index].value).type.dtype;
  }

  /// Operand `index` of a product or diagonal; 1 when there is none.
  Factor factor_of(ValueId id, size_t index) {
    const ir::Node& node = graph_.node(id);
    Factor factor;
    if (index >= node.num_operands) return factor;
    const ValueId operand = node.operands[index];
    if (graph_.is_const(operand)) {
      factor.value = graph_.const_value(operand);
    } else if (graph_.is_scalar(operand)) {
      factor.kind = Factor::Kind::Scalar;
      factor.slot = static_cast<uint32_t>(scalars_.size());
      scalars_.push_back(operand);
    } else {
      factor.kind = Factor::Kind::Memory;
      factor.access = compiler::access_of(group_, operand);
      factor.dtype = graph_.node(operand).type.dtype;
    }
    return factor;
  }

  void lower_scalars(LoweredGroup& out) const {
    out.scalars = std::make_unique<ir::ScalarProgram>(graph_, scalars_);
    std::vector<uint32_t> hyper_number(graph_.inputs().size(), 0);
    uint32_t count = 0;
    for (size_t i = 0; i < graph_.inputs().size(); ++i)
      if (graph_.inputs()[i].kind == ir::InputKind::Hyper) hyper_number[i] = count++;
    const auto input_index = [&](ValueId id) { return std::get<ir::InputAttr>(graph_.node(id).attr).index; };
    for (ValueId id : out.scalars->hyper_inputs()) out.hyper_index.push_back(hyper_number[input_index(id)]);
    for (ValueId id : out.scalars->fresh_states()) out.fresh_index.push_back(input_index(id));
  }

  const GroupPlan& group_;
  const Graph& graph_;
  ir::Mode mode_;
  std::vector<ValueId> scalars_;
};

}  // namespace

LoweredGroup lower_group(const GroupPlan& group, ir::Mode mode) { return GroupLowering(group, mode).run(); }

}  // namespace stepfuse::codegen
