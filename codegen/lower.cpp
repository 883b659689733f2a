// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/lower.h"

#include "compiler/dependencies.h"
#include "compiler/schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace stepfuse::codegen {

using compiler::Access;
using compiler::GroupPlan;
using compiler::GroupStep;
using compiler::Slot;
using ir::Axis;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// Two windows on the same elements are one argument; values that share a lane share it too.
using Window = std::tuple<Slot::Kind, uint32_t, int64_t, std::array<int64_t, 3>, std::array<int64_t, 3>, ir::DType>;

class PhaseLowering {
 public:
  PhaseLowering(const GroupPlan& group, const GroupStep& step, size_t phase, ir::Mode mode)
      : group_(group), graph_(group.graph), nodes_(step.phases[phase]) {
    out_.spec.mode = mode;
    out_.spec.name = kernel_name(step, phase);
    out_.symbolic = group.symbolic;
  }

  LoweredPhase run() {
    choose_domain();
    for (ValueId id : nodes_) lower_node(id);
    for (ValueId id : nodes_) store(id);
    out_.spec.num_scalars = static_cast<uint32_t>(out_.scalars.size());
    flatten();
    name_dtypes();
    return std::move(out_);
  }

 private:
  std::string kernel_name(const GroupStep& step, size_t phase) const {
    std::string name = "stepfuse_" + graph_.name + "_" + step.role;
    if (step.phases.size() > 1) name += fmt::format("_p{}", phase);
    return name;
  }

  void choose_domain() {
    const ir::Shape domain = compiler::phase_domain(graph_, nodes_);
    if (!out_.symbolic)
      for (int i = 0; i < domain.rank; ++i) out_.dims[static_cast<size_t>(2 - i)] = domain.from_end(i).value();
    for (ValueId id : nodes_) {
      if (!ir::is_reduce(graph_.node(id).op)) continue;
      const Axis axis = std::get<ir::ReduceAttr>(graph_.node(id).attr).axis;
      if (axis == Axis::Rows) out_.spec.scheme = Scheme::Rows;
      if (axis == Axis::Cols) out_.spec.scheme = Scheme::Cols;
      if (axis == Axis::All) reduces_all_ = true;
    }
  }

  Varies varies_of(const Access& access) const {
    if (access.symbolic) return {false, false, true};
    return {access.dims[0] != 1, access.dims[1] != 1, access.dims[2] != 1};
  }

  uint32_t argument(ValueId id) {
    const Access access = compiler::access_of(group_, id);
    const ir::DType dtype = graph_.node(id).type.dtype;
    const uint32_t place =
        access.slot.kind == Slot::Kind::Scratch ? group_.buffers[access.slot.index].lane : access.slot.index;
    const Window window{access.slot.kind, place, access.offset, access.dims, access.strides, dtype};
    const auto [it, is_new] = arguments_.emplace(window, static_cast<uint32_t>(out_.args.size()));
    if (is_new) {
      out_.args.push_back(access);
      out_.spec.args.push_back({group_.names[id.v], dtype, varies_of(access), false, false});
    }
    return it->second;
  }

  uint32_t scalar_slot(ValueId id) {
    const auto it = std::find(out_.scalars.begin(), out_.scalars.end(), id);
    if (it != out_.scalars.end()) return static_cast<uint32_t>(it - out_.scalars.begin());
    out_.scalars.push_back(id);
    return static_cast<uint32_t>(out_.scalars.size() - 1);
  }

  Operand operand(ValueId id) {
    if (graph_.is_const(id)) return {Operand::Kind::Const, 0, graph_.const_value(id)};
    if (graph_.is_scalar(id)) return {Operand::Kind::Scalar, scalar_slot(id), 0};
    if (const auto it = instr_of_.find(id); it != instr_of_.end()) return {Operand::Kind::Instr, it->second, 0};
    const uint32_t arg = argument(id);
    out_.spec.args[arg].read = true;
    return {Operand::Kind::Arg, arg, 0};
  }

  Varies varies_of(const Operand& op) const {
    switch (op.kind) {
      case Operand::Kind::Arg:
        return out_.spec.args[op.index].varies;
      case Operand::Kind::Instr:
        return out_.spec.instrs[op.index].varies;
      case Operand::Kind::Scalar:
      case Operand::Kind::Const:
        return {};
    }
    return {};
  }

  void lower_node(ValueId id) {
    const Node& node = graph_.node(id);
    if (ir::is_reduce(node.op)) return lower_reduction(id);
    Instr instr{group_.names[id.v], node.op, node.type.dtype, math_of(node), {}, {}};
    for (ValueId arg : node.args()) {
      instr.operands.push_back(operand(arg));
      const Varies varies = varies_of(instr.operands.back());
      for (size_t d = 0; d < 3; ++d) instr.varies[d] = instr.varies[d] || varies[d];
    }
    instr_of_[id] = static_cast<uint32_t>(out_.spec.instrs.size());
    out_.spec.instrs.push_back(std::move(instr));
  }

  /// f64 as soon as one tensor is f64, f32 otherwise (bool results included).
  ir::DType math_of(const Node& node) const { return ir::math_dtype(graph_, node); }

  void lower_reduction(ValueId id) {
    const Node& node = graph_.node(id);
    const ir::DType operand_math = ir::math_dtype(graph_.node(node.operands[0]).type.dtype);
    const bool in_f64 = node.op == Op::SumSq || node.op == Op::Norm || math_of(node) == ir::DType::F64;
    const ir::DType math = in_f64 ? ir::DType::F64 : operand_math;
    out_.spec.reductions.push_back({group_.names[id.v], node.op, math, operand(node.operands[0]), node.type.dtype});
    out_.reductions.push_back({id, compiler::access_of(group_, id), node.op, math, node.type.dtype});
  }

  void store(ValueId id) {
    if (ir::is_reduce(graph_.node(id).op) || group_.slots[id.v].kind == Slot::Kind::None) return;
    const uint32_t arg = argument(id);
    out_.spec.args[arg].written = true;
    out_.spec.stores.push_back({{Operand::Kind::Instr, instr_of_.at(id), 0}, arg});
  }

  bool one_per_unit(const Access& access) const {
    return !access.symbolic && access.dims[1] == 1 && access.dims[2] == 1 &&
           (access.dims[0] == 1 || access.strides[0] == 1);
  }

  /// Row-major without gaps over the whole domain.
  bool dense(const Access& access) const {
    if (access.symbolic) return true;
    int64_t expected = 1;
    for (size_t d = 3; d-- > 0;) {
      if (access.dims[d] != out_.dims[d]) return false;
      if (access.dims[d] != 1 && access.strides[d] != expected) return false;
      expected *= out_.dims[d];
    }
    return true;
  }

  /// Makes the domain as flat as its arguments allow, and says whether they are contiguous.
  void flatten() {
    if (out_.spec.scheme != Scheme::Linear) {
      out_.spec.contiguous = false;
      return;
    }
    const bool all_dense = std::all_of(out_.args.begin(), out_.args.end(), [&](const Access& a) { return dense(a); });
    if (reduces_all_ || (out_.reductions.empty() && all_dense)) fold_batch();
    out_.spec.contiguous =
        std::all_of(out_.args.begin(), out_.args.end(), [&](const Access& a) { return dense(a) || one_per_unit(a); });
  }

  void fold_batch() {
    if (out_.symbolic || out_.dims[0] == 1) return;
    for (size_t k = 0; k < out_.args.size(); ++k) {
      Access& access = out_.args[k];
      const bool one_element = access.dims == std::array<int64_t, 3>{1, 1, 1};
      STEPFUSE_CHECK(one_element || dense(access), "{}: a batch that cannot be folded was not refused", out_.spec.name);
      access.strides[1] = access.dims[1] == 1 ? access.strides[0] : access.strides[1];
      access.dims[1] *= access.dims[0];
      access.dims[0] = 1;
      access.strides[0] = 0;
      out_.spec.args[k].varies = varies_of(access);
    }
    for (Instr& instr : out_.spec.instrs) {
      instr.varies[1] = instr.varies[1] || instr.varies[0];
      instr.varies[0] = false;
    }
    out_.dims[1] *= out_.dims[0];
    out_.dims[0] = 1;
  }

  /// The kernel's name ends in the element types it touches.
  void name_dtypes() {
    std::set<std::string_view> types;
    for (const KernelArg& arg : out_.spec.args) types.insert(ir::dtype_name(arg.dtype));
    for (std::string_view type : types) out_.spec.name += "_" + std::string(type);
  }

  const GroupPlan& group_;
  const Graph& graph_;
  const std::vector<ValueId>& nodes_;
  LoweredPhase out_;
  std::map<Window, uint32_t> arguments_;
  std::map<ValueId, uint32_t> instr_of_;
  bool reduces_all_ = false;
};

}  // namespace

LoweredPhase lower_phase(const GroupPlan& group, const GroupStep& step, size_t phase, ir::Mode mode) {
  return PhaseLowering(group, step, phase, mode).run();
}

std::array<int64_t, 3> phase_dims(const LoweredPhase& phase, int64_t elements) {
  return phase.symbolic ? std::array<int64_t, 3>{1, 1, elements} : phase.dims;
}

ReductionLayout reduction_layout(const LoweredPhase& phase, int64_t elements) {
  const auto [d0, d1, d2] = phase_dims(phase, elements);
  switch (phase.spec.scheme) {
    case Scheme::Linear:
      return {d0, chunks_of(d1 * d2)};
    case Scheme::Rows:
      return {d0 * d1, chunks_of(d2)};
    case Scheme::Cols:
      return {d0 * d2, chunks_of(d1)};
  }
  return {0, 0};
}

int64_t partial_count(const LoweredPhase& phase, int64_t elements) {
  const ReductionLayout layout = reduction_layout(phase, elements);
  return layout.results * layout.chunks * static_cast<int64_t>(phase.reductions.size());
}

std::vector<KernelSpec> distinct_kernels(const compiler::StepPlan& plan) {
  std::vector<KernelSpec> kernels;
  std::set<std::string> seen;
  for (const GroupPlan& group : plan.groups)
    for (const GroupStep& step : group.steps)
      for (size_t phase = 0; phase < step.phases.size(); ++phase) {
        KernelSpec spec = lower_phase(group, step, phase, plan.mode).spec;
        if (seen.insert(print(spec)).second) kernels.push_back(std::move(spec));
      }
  return kernels;
}

}  // namespace stepfuse::codegen
