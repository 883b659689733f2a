// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/counts.h"

#include "compiler/dependencies.h"
#include "compiler/schedule.h"

#include <map>
#include <tuple>

namespace stepfuse::compiler {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

void add_launch(LaunchCounts& counts, const GroupStep& step, const TargetTraits& target) {
  switch (step.kind) {
    case StepKind::Fused:
      counts.elementwise += target.launches_phases ? static_cast<int64_t>(step.phases.size()) : 1;
      return;
    case StepKind::Product:
      ++counts.gemms;
      return;
    case StepKind::AddDiag:
    case StepKind::Concat:
    case StepKind::Copy:
      ++counts.aux;
      return;
  }
}

double product_flops(const GroupPlan& group, ValueId id, const TargetTraits& target) {
  const Graph& graph = group.graph;
  const Node& node = graph.node(id);
  const auto flags = std::get<ir::MatmulAttr>(node.attr);
  const ir::Type& a = graph.node(node.operands[0]).type;
  const double k = static_cast<double>((flags.trans_a ? a.shape.from_end(1) : a.shape.from_end(0)).value());
  const double m = static_cast<double>(node.type.shape.from_end(1).value());
  const double n = static_cast<double>(node.type.shape.from_end(0).value());
  const double batch = static_cast<double>(node.type.shape.from_end(2).value());
  const bool triangle = flags.symmetric && target.symmetric_products && a.dtype == ir::DType::F32;
  return batch * k * (triangle ? m * (n + 1) : 2 * m * n);
}

/// Memory one launch touches, each place once per direction: what it writes and reads again stays in cache.
class Traffic {
 public:
  Traffic(const GroupPlan& group) : group_(group), materialised_(materialised_values(group)) {}

  double fused(const GroupStep& step) {
    start();
    for (const auto& nodes : step.phases) {
      for (ValueId id : nodes) {
        for (ValueId operand : group_.graph.node(id).args()) read(operand);
        if (materialised_[id.v]) write(id);
      }
    }
    return bytes_;
  }

  /// A product's traffic on parameters and states, which a kernel would have had otherwise.
  double product(const GroupStep& step) {
    start();
    const Node& node = group_.graph.node(step.node);
    if (node.num_operands == 5 && group_.slots[view_base(group_.graph, node.operands[2]).v].kind == Slot::Kind::Input)
      read(node.operands[2]);
    if (group_.slots[step.node.v].kind == Slot::Kind::Input) write(step.node);
    return bytes_;
  }

 private:
  void start() {
    bytes_ = 0;
    read_.clear();
    written_.clear();
  }

  std::pair<Slot::Kind, uint32_t> place(ValueId id) const {
    const Slot slot = group_.slots[id.v];
    return {slot.kind, slot.kind == Slot::Kind::Scratch ? group_.buffers[slot.index].lane : slot.index};
  }

  /// Per element of the parameter when symbolic, else of the whole member.
  double size(ValueId id) const {
    const ir::Type& type = group_.graph.node(id).type;
    double elements = 1;
    for (size_t i = 0; i < type.shape.rank; ++i)
      elements *= type.shape.dims[i].is_symbol() ? 1.0 : static_cast<double>(type.shape.dims[i].value());
    return elements * static_cast<double>(ir::dtype_bytes(type.dtype));
  }

  void read(ValueId operand) {
    if (group_.graph.is_scalar(operand)) return;
    const ValueId base = view_base(group_.graph, operand);
    if (group_.slots[base.v].kind == Slot::Kind::None || written_.contains(place(base)) ||
        !read_.emplace(place(base), true).second)
      return;
    bytes_ += size(operand);
  }

  void write(ValueId id) {
    if (written_.emplace(place(id), true).second) bytes_ += size(id);
  }

  const GroupPlan& group_;
  std::vector<bool> materialised_;
  std::map<std::pair<Slot::Kind, uint32_t>, bool> read_, written_;
  double bytes_ = 0;
};

/// Bytes of one member (per element when symbolic).
double group_bytes(const GroupPlan& group) {
  Traffic traffic(group);
  double bytes = 0;
  for (const GroupStep& step : group.steps) {
    if (step.kind == StepKind::Fused) bytes += traffic.fused(step);
    if (step.kind == StepKind::Product) bytes += traffic.product(step);
  }
  return bytes;
}

}  // namespace

LaunchCounts count_naive(const Graph& rule) {
  LaunchCounts counts;
  for (uint32_t i = 0; i < rule.size(); ++i) {
    const Node& node = rule.node(ValueId{i});
    if (node.type.scalar || node.op == Op::Input || ir::is_view(node.op)) continue;
    if (is_fusible(rule, ValueId{i})) {
      ++counts.elementwise;
    } else {
      ++(node.op == Op::Matmul ? counts.gemms : counts.aux);
    }
  }
  return counts;
}

PlanCounts count_plan(const StepPlan& plan, const std::vector<PlannedParameter>& parameters) {
  PlanCounts counts;
  double bytes = 0;
  for (const GroupPlan& group : plan.groups) {
    const LaunchCounts naive = count_naive(group.naive);
    const auto members = static_cast<int64_t>(group.members.size());
    counts.naive.elementwise += members * naive.elementwise;
    counts.naive.gemms += members * naive.gemms;
    counts.naive.aux += members * naive.aux;
    int64_t elements = 0;
    for (uint32_t member : group.members) {
      elements += element_count(parameters[member].shape);
      counts.peer_eager.elementwise += parameters[member].peer.elementwise;
      counts.peer_eager.gemms += parameters[member].peer.products;
    }
    counts.parameters += elements;
    bytes += group_bytes(group) * static_cast<double>(group.symbolic ? elements : members);
    for (const GroupStep& step : group.steps)
      if (step.kind == StepKind::Product)
        counts.gemm_flops += static_cast<double>(members) * product_flops(group, step.node, plan.target);
  }
  for (const Launch& launch : plan.launches)
    add_launch(counts.fused, plan.groups[launch.group].steps[launch.step], plan.target);
  if (plan.target.launches_scalars && !plan.launches.empty()) ++counts.fused.aux;
  counts.bytes_per_param = counts.parameters == 0 ? 0 : bytes / static_cast<double>(counts.parameters);
  return counts;
}

LaunchCounts newton_schulz_launches(int64_t iterations, int64_t sub_batches, bool update_absorbed) {
  return {sub_batches * (update_absorbed ? 1 : 2), sub_batches * 3 * iterations, update_absorbed ? sub_batches : 0};
}

LaunchCounts newton_schulz_naive(int64_t iterations, int64_t matrices) {
  return {matrices * (8 + 5 * iterations), matrices * 3 * iterations, 0};
}

}  // namespace stepfuse::compiler
