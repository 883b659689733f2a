// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule.h"

#include "compiler/dependencies.h"
#include "compiler/roles.h"

#include <algorithm>

namespace stepfuse::compiler {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

GroupStep step_of(const Graph& graph, const Unit& unit) {
  GroupStep step{StepKind::Fused, {}, {}, unit.nodes.front(), {}, {}};
  const Op op = graph.node(step.node).op;
  if (op == Op::Matmul) step.kind = StepKind::Product;
  if (op == Op::AddDiag) step.kind = StepKind::AddDiag;
  if (op == Op::Concat) step.kind = StepKind::Concat;
  if (step.kind != StepKind::Fused) return step;
  for (ValueId id : unit.nodes) {
    const auto phase = static_cast<size_t>(unit.cluster < 0 ? 0 : graph.placement(id).phase);
    step.phases.resize(std::max(step.phases.size(), phase + 1));
    step.phases[phase].push_back(id);
  }
  return step;
}

Access dense_access(const ir::Shape& shape, Slot slot, bool symbolic) {
  Access access{slot, symbolic, 0, {1, 1, 1}, {0, 0, 0}};
  int64_t stride = 1;
  for (int i = 0; i < shape.rank && !symbolic; ++i) {
    const int64_t extent = shape.from_end(i).value();
    access.dims[static_cast<size_t>(2 - i)] = extent;
    access.strides[static_cast<size_t>(2 - i)] = extent == 1 ? 0 : stride;
    stride *= extent;
  }
  return access;
}

/// Of the input or the padded matrix behind `slot`; empty where it is dense.
Strides layout_of(const GroupPlan& group, Slot slot) {
  if (slot.kind == Slot::Kind::Scratch && group.buffers[slot.index].pitch != 0)
    return {group.buffers[slot.index].pitch, 1};
  if (slot.kind != Slot::Kind::Input || group.layouts.empty()) return {};
  return group.layouts[slot.index];
}

/// Puts the strides of what is behind the window's slot in place of dense ones.
void apply_layout(const GroupPlan& group, Access& access) {
  const Strides strides = layout_of(group, access.slot);
  const size_t first = access.strides.size() - strides.size();
  for (size_t d = 0; d < strides.size(); ++d) access.strides[first + d] = access.dims[first + d] == 1 ? 0 : strides[d];
}

Slot input_slot(const Graph& graph, ValueId input) {
  return {Slot::Kind::Input, std::get<ir::InputAttr>(graph.node(input).attr).index};
}

/// Decides for every output whether it may be written straight over what it replaces.
class InPlace {
 public:
  InPlace(const GroupPlan& group, const std::vector<Moment>& defined)
      : graph_(group.graph), group_(group), defined_(defined), readers_(readers_of(group.graph)) {}

  bool allowed(ValueId value, ValueId target) const {
    const Node& node = graph_.node(value);
    if (node.op == Op::Input || ir::is_view(node.op)) return false;
    if (!layout_fits(value, layout_of(group_, input_slot(graph_, target)))) return false;
    const GroupStep& writer = group_.steps[static_cast<size_t>(defined_[value.v].step)];
    const auto& readers = readers_[target.v];
    return std::all_of(readers.begin(), readers.end(),
                       [&](const Reader& r) { return reads_in_time(r, value, target, writer); });
  }

 private:
  /// Kernels and moves go by any strides. Sums are stored dense, and products have their wishes.
  bool layout_fits(ValueId value, const Strides& strides) const {
    if (strides.empty()) return true;
    const Op writer = graph_.node(value).op;
    if (ir::is_reduce(writer) || (writer == Op::Matmul && !product_writes(strides))) return false;
    return std::all_of(readers_[value.v].begin(), readers_[value.v].end(), [&](const Reader& reader) {
      const Node& node = graph_.node(reader.id);
      if (node.op != Op::Matmul) return true;
      const bool as_c = node.num_operands == 5 && view_base(graph_, node.operands[2]) == value;
      return product_reads(strides) && (!as_c || product_writes(strides));
    });
  }

  bool reads_in_time(const Reader& reader, ValueId value, ValueId target, const GroupStep& writer) const {
    // Fresh reads the state's flag, not its memory.
    if (graph_.node(reader.id).type.scalar) return true;
    const Moment read = defined_[reader.id.v];
    const Moment write = defined_[value.v];
    if (read.step != write.step) return read.step < write.step;
    if (writer.kind == StepKind::Product) return reads_only_as_c(value, target, reader);
    if (writer.kind != StepKind::Fused) return false;
    if (read.phase != write.phase) return read.phase < write.phase;
    // Loads come before stores at each position; that holds only if reader and writer visit an element together.
    const auto& nodes = writer.phases[static_cast<size_t>(write.phase)];
    return !reader.through_view && phase_domain(graph_, nodes) == graph_.node(target).type.shape;
  }

  bool reads_only_as_c(ValueId product, ValueId target, const Reader& reader) const {
    const Node& node = graph_.node(product);
    return !reader.through_view && node.num_operands == 5 && node.operands[2] == target &&
           view_base(graph_, node.operands[0]) != target && view_base(graph_, node.operands[1]) != target;
  }

  const Graph& graph_;
  const GroupPlan& group_;
  const std::vector<Moment>& defined_;
  std::vector<std::vector<Reader>> readers_;
};

class Scheduler {
 public:
  explicit Scheduler(GroupPlan& group) : group_(group), graph_(group.graph) {}

  void run() {
    make_steps();
    group_.slots.assign(graph_.size(), {});
    for (const ir::Input& input : graph_.inputs())
      if (!input.type.scalar) group_.slots[input.value.v] = input_slot(graph_, input.value);
    place_outputs();
    const auto materialised = materialised_values(group_);
    for (uint32_t i = 0; i < graph_.size(); ++i)
      if (materialised[i] && group_.slots[i].kind == Slot::Kind::None) group_.slots[i] = scratch_for(ValueId{i});
    append_copies();
    extend_lives();
  }

 private:
  void make_steps() {
    std::vector<int32_t> cluster(graph_.size());
    for (uint32_t i = 0; i < graph_.size(); ++i) cluster[i] = graph_.placement(ValueId{i}).cluster;
    const auto units = order_units(graph_, cluster);
    STEPFUSE_CHECK(units.has_value(), "clusters of {} wait for each other", graph_.name);
    for (const Unit& unit : *units) group_.steps.push_back(step_of(graph_, unit));
    save_passed_inputs();
  }

  /// An output that is an input or a view of one: its old contents are saved before anything is overwritten.
  void save_passed_inputs() {
    for (const ir::Output& output : graph_.outputs()) {
      if (output.value == output.target || graph_.node(view_base(graph_, output.value)).op != Op::Input) continue;
      if (std::find(saved_.begin(), saved_.end(), output.value) == saved_.end()) saved_.push_back(output.value);
    }
    std::vector<GroupStep> copies(saved_.size(), GroupStep{StepKind::Copy, "save", {}, {}, {}, {}});
    group_.steps.insert(group_.steps.begin(), copies.begin(), copies.end());
  }

  void place_outputs() {
    defined_ = defining_moments(group_);
    const InPlace in_place(group_, defined_);
    for (const ir::Output& output : graph_.outputs()) {
      if (output.value == output.target) continue;
      const bool free = group_.slots[output.value.v].kind == Slot::Kind::None;
      if (free && in_place.allowed(output.value, output.target)) {
        group_.slots[output.value.v] = input_slot(graph_, output.target);
      } else {
        late_.push_back(output);
      }
    }
  }

  Slot scratch_for(ValueId value) {
    const ir::Type& type = graph_.node(value).type;
    ScratchBuffer buffer{value, ir::dtype_bytes(type.dtype), group_.symbolic, defined_[value.v], defined_[value.v], 0};
    if (!group_.symbolic)
      for (size_t i = 0; i < type.shape.rank; ++i) buffer.bytes *= type.shape.dims[i].value();
    group_.buffers.push_back(buffer);
    return {Slot::Kind::Scratch, static_cast<uint32_t>(group_.buffers.size() - 1)};
  }

  void append_copies() {
    for (size_t k = 0; k < saved_.size(); ++k) {
      defined_[saved_[k].v] = {static_cast<int32_t>(k), 0};
      group_.steps[k].from = access_of(group_, saved_[k]);
      const Slot scratch = scratch_for(saved_[k]);
      group_.steps[k].to = scratch;
      saved_slots_.push_back(scratch);
    }
    for (const ir::Output& output : late_) {
      GroupStep copy{
          StepKind::Copy, "copy", {}, {}, access_of(group_, output.value), input_slot(graph_, output.target)};
      const auto it = std::find(saved_.begin(), saved_.end(), output.value);
      if (it != saved_.end()) {
        const Slot scratch = saved_slots_[static_cast<size_t>(it - saved_.begin())];
        copy.from = dense_access(graph_.node(output.value).type.shape, scratch, group_.symbolic);
      }
      group_.steps.push_back(copy);
      if (copy.from.slot.kind == Slot::Kind::Scratch)
        extend(copy.from.slot, {static_cast<int32_t>(group_.steps.size() - 1), 0});
    }
  }

  void extend(Slot slot, Moment moment) {
    ScratchBuffer& buffer = group_.buffers[slot.index];
    buffer.last = std::max(buffer.last, moment);
  }

  void extend_lives() {
    const auto readers = readers_of(graph_);
    for (uint32_t i = 0; i < graph_.size(); ++i) {
      if (group_.slots[i].kind != Slot::Kind::Scratch) continue;
      for (const Reader& reader : readers[i])
        if (!graph_.is_scalar(reader.id)) extend(group_.slots[i], defined_[reader.id.v]);
    }
  }

  GroupPlan& group_;
  const Graph& graph_;
  std::vector<Moment> defined_;
  std::vector<ir::Output> late_;  // outputs that need a copy at the end
  std::vector<ValueId> saved_;    // passed-through inputs, copied first
  std::vector<Slot> saved_slots_;
};

/// Turns the window on a view's operand into the view's own.
void look_through(const Node& view, Access& access) {
  if (view.op == Op::Transpose) {
    std::swap(access.dims[1], access.dims[2]);
    std::swap(access.strides[1], access.strides[2]);
    return;
  }
  const auto& slice = std::get<ir::SliceAttr>(view.attr);
  const size_t dim = static_cast<size_t>(ir::kMaxRank - view.type.shape.rank) + slice.dim;
  access.offset += slice.begin * access.strides[dim];
  access.dims[dim] = slice.end - slice.begin;
  if (access.dims[dim] == 1) access.strides[dim] = 0;
}

}  // namespace

std::vector<Moment> defining_moments(const GroupPlan& group) {
  std::vector<Moment> moments(group.graph.size(), Moment{-1, 0});
  for (size_t s = 0; s < group.steps.size(); ++s) {
    const GroupStep& step = group.steps[s];
    if (step.kind != StepKind::Fused && step.kind != StepKind::Copy)
      moments[step.node.v] = {static_cast<int32_t>(s), 0};
    for (size_t p = 0; p < step.phases.size(); ++p)
      for (ValueId id : step.phases[p]) moments[id.v] = {static_cast<int32_t>(s), static_cast<int32_t>(p)};
  }
  return moments;
}

std::vector<bool> materialised_values(const GroupPlan& group) {
  const Graph& graph = group.graph;
  const auto moments = defining_moments(group);
  std::vector<bool> materialised(graph.size(), false);
  for (const ir::Output& output : graph.outputs()) materialised[view_base(graph, output.value).v] = true;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(ValueId{i});
    if (node.type.scalar || ir::is_view(node.op)) continue;
    if (!ir::is_elementwise(node.op)) materialised[i] = true;
    for (ValueId operand : node.args()) {
      const ValueId base = view_base(graph, operand);
      if (base != operand || moments[base.v] != moments[i]) materialised[base.v] = true;
    }
  }
  for (uint32_t i = 0; i < graph.size(); ++i)
    if (graph.is_scalar(ValueId{i}) || graph.node(ValueId{i}).op == Op::Input || ir::is_view(graph.node(ValueId{i}).op))
      materialised[i] = false;
  return materialised;
}

ir::Shape phase_domain(const Graph& graph, const std::vector<ValueId>& nodes) {
  ir::Shape domain;
  for (ValueId id : nodes) {
    const Node& node = graph.node(id);
    const ir::Shape& shape = ir::is_reduce(node.op) ? graph.node(node.operands[0]).type.shape : node.type.shape;
    const auto joined = ir::broadcast(domain, shape);
    STEPFUSE_CHECK(joined.has_value(), "a phase of {} mixes shapes that do not broadcast", graph.name);
    domain = *joined;
  }
  return domain;
}

void schedule(GroupPlan& group) {
  Scheduler(group).run();
  name_values(group);
  name_roles(group);
}

Access slot_access(const GroupPlan& group, const std::array<int64_t, 3>& dims, Slot slot) {
  Access access{slot, group.symbolic, 0, dims, {0, 0, 0}};
  int64_t stride = 1;
  for (size_t d = 3; d-- > 0 && !access.symbolic; stride *= dims[d]) access.strides[d] = dims[d] == 1 ? 0 : stride;
  apply_layout(group, access);
  return access;
}

Access access_of(const GroupPlan& group, ValueId id) {
  const Graph& graph = group.graph;
  std::vector<ValueId> views;  // from the outermost in
  for (; ir::is_view(graph.node(id).op); id = graph.node(id).operands[0]) views.push_back(id);
  Access access = dense_access(graph.node(id).type.shape, group.slots[id.v], group.symbolic);
  apply_layout(group, access);
  for (auto view = views.rbegin(); view != views.rend(); ++view) look_through(graph.node(*view), access);
  return access;
}

}  // namespace stepfuse::compiler
