// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fuse.h"

#include "compiler/dependencies.h"
#include "compiler/limits.h"
#include "compiler/passes/dce.h"
#include "compiler/passes/passes.h"

#include <algorithm>
#include <map>
#include <set>

namespace stepfuse::compiler {

using ir::Axis;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Placement;
using ir::ReduceAttr;
using ir::Shape;
using ir::ValueId;

namespace {

/// The elements an op covers: a reduction's operand, else its result.
const Shape& domain_of(const Graph& graph, ValueId id) {
  const Node& node = graph.node(id);
  return ir::is_reduce(node.op) ? graph.node(node.operands[0]).type.shape : node.type.shape;
}

/// `small` repeats along some dimensions of `large`.
bool covers(const Shape& large, const Shape& small) {
  if (large == small) return false;
  // Nothing runs over an empty domain, so nothing that is needed elsewhere may join it.
  for (size_t i = 0; i < large.rank; ++i)
    if (large.dims[i] == ir::Extent::of(0)) return false;
  const auto both = ir::broadcast(large, small);
  return both && *both == large;
}

/// Stages separate what products separate: a stage's clusters run first, then the products that read them.
class Stages {
 public:
  explicit Stages(const Graph& graph) : graph_(graph), stage_(graph.size(), 0) {
    for (uint32_t i = 0; i < graph.size(); ++i) stage_[i] = earliest(ValueId{i});
    sink();
  }
  int32_t operator[](ValueId id) const { return stage_[id.v]; }

 private:
  int32_t earliest(ValueId id) const {
    const Node& node = graph_.node(id);
    int32_t stage = 0;
    for (ValueId operand : node.args()) {
      if (graph_.is_scalar(operand)) continue;
      const ValueId source = view_base(graph_, operand);
      stage = std::max(stage, stage_[source.v] + (is_fusible(graph_, id) ? gap(source, source != operand) : 0));
    }
    return stage;
  }

  /// Stages between a source and a fusible reader. A view of a fused value needs the value in memory first.
  int32_t gap(ValueId source, bool through_view) const {
    if (graph_.node(source).op == Op::Input) return 0;
    return !is_fusible(graph_, source) || through_view ? 1 : 0;
  }

  int64_t bytes(ValueId id) const {
    const ir::Type& type = graph_.node(id).type;
    // A symbolic extent stands for a large number; only comparisons between values of one graph matter here.
    int64_t elements = 1;
    for (size_t i = 0; i < type.shape.rank; ++i)
      elements *= type.shape.dims[i].is_symbol() ? 4096 : type.shape.dims[i].value();
    return elements * ir::dtype_bytes(type.dtype);
  }

  /// The last stage at which every reader can still have the value; the own stage when that is not later.
  int32_t latest(ValueId id, const std::vector<Reader>& readers) const {
    int32_t stage = INT32_MAX;
    for (const Reader& reader : readers)
      stage = std::min(stage, stage_[reader.id.v] - (is_fusible(graph_, reader.id) && reader.through_view ? 1 : 0));
    return readers.empty() ? stage_[id.v] : stage;
  }

  /// What the op would have to read again at a later stage.
  int64_t bytes_read_later(ValueId id, const std::vector<uint32_t>& uses) const {
    int64_t total = 0;
    for (ValueId operand : graph_.node(id).args()) {
      if (graph_.is_scalar(operand)) continue;
      const ValueId source = view_base(graph_, operand);
      const bool moves_along = is_fusible(graph_, source) && uses[source.v] == 1;
      if (!moves_along) total += bytes(operand);
    }
    return total;
  }

  void sink() {
    const auto readers = readers_of(graph_);
    const auto uses = ir::count_uses(graph_);
    std::vector<bool> is_output(graph_.size(), false);
    for (const ir::Output& output : graph_.outputs()) is_output[output.value.v] = true;
    for (auto i = static_cast<uint32_t>(graph_.size()); i-- > 0;) {
      const ValueId id{i};
      if (!is_fusible(graph_, id) || is_output[i] || ir::is_reduce(graph_.node(id).op)) continue;
      const int32_t stage = latest(id, readers[i]);
      if (stage > stage_[i] && 2 * bytes(id) >= bytes_read_later(id, uses)) stage_[i] = stage;
    }
  }

  const Graph& graph_;
  std::vector<int32_t> stage_;
};

/// Groups ops of one stage and one domain; a small domain joins the large one it feeds or comes from.
class Clusters {
 public:
  Clusters(const Graph& graph, const Stages& stages) : graph_(graph), cluster_(graph.size(), -1) {
    for (uint32_t i = 0; i < graph.size(); ++i)
      if (is_fusible(graph, ValueId{i})) cluster_[i] = group(stages[ValueId{i}], domain_of(graph, ValueId{i}));
    for (uint32_t i = 0; i < graph.size(); ++i) join_small(ValueId{i}, stages);
    // A reduction covers its own operand and nothing larger, so it stays where that is the domain.
    for (uint32_t i = 0; i < graph.size(); ++i)
      if (cluster_[i] >= 0 && !ir::is_reduce(graph.node(ValueId{i}).op)) cluster_[i] = root(cluster_[i]);
    split_cycles();
    number();
  }
  const std::vector<int32_t>& ids() const { return cluster_; }

 private:
  int32_t group(int32_t stage, const Shape& domain) {
    for (size_t k = 0; k < groups_.size(); ++k)
      if (groups_[k].stage == stage && groups_[k].domain == domain) return static_cast<int32_t>(k);
    groups_.push_back({stage, domain, static_cast<int32_t>(groups_.size())});
    return static_cast<int32_t>(groups_.size() - 1);
  }

  int32_t root(int32_t k) const {
    while (groups_[static_cast<size_t>(k)].parent != k) k = groups_[static_cast<size_t>(k)].parent;
    return k;
  }

  void attach(int32_t small, int32_t large) {
    Group& group = groups_[static_cast<size_t>(small)];
    if (group.parent == small && covers(groups_[static_cast<size_t>(large)].domain, group.domain)) group.parent = large;
  }

  void join_small(ValueId reader, const Stages& stages) {
    if (!is_fusible(graph_, reader)) return;
    for (ValueId operand : graph_.node(reader).args()) {
      if (!is_fusible(graph_, operand) || stages[operand] != stages[reader]) continue;
      attach(cluster_[operand.v], cluster_[reader.v]);
      attach(cluster_[reader.v], cluster_[operand.v]);
    }
  }

  /// Clusters that would wait for each other run as single ops instead.
  void split_cycles() {
    auto next = static_cast<int32_t>(groups_.size());
    while (const auto stuck = find_cycle(graph_, cluster_)) {
      for (int32_t& c : cluster_)
        if (c >= 0 && std::find(stuck->begin(), stuck->end(), c) != stuck->end()) c = next++;
    }
  }

  void number() {
    std::map<int32_t, int32_t> order;
    for (int32_t& c : cluster_) {
      if (c < 0) continue;
      c = order.emplace(c, static_cast<int32_t>(order.size())).first->second;
    }
  }

  struct Group {
    int32_t stage;
    Shape domain;
    int32_t parent;
  };
  const Graph& graph_;
  std::vector<Group> groups_;
  std::vector<int32_t> cluster_;
};

/// Reductions of one phase must be cut in the same way.
int reduction_cut(const Graph& graph, ValueId id) {
  const Axis axis = std::get<ReduceAttr>(graph.node(id).attr).axis;
  const bool batched = domain_of(graph, id).from_end(2) != ir::Extent::of(1);
  switch (axis) {
    case Axis::All:
      return batched ? 3 : 0;
    case Axis::Matrix:
      return 0;
    case Axis::Rows:
      return 1;
    case Axis::Cols:
      return 2;
  }
  return 0;
}

/// Tensors that one phase reads from outside or may store, and the reductions it carries; both from above.
struct PhaseSize {
  std::set<ValueId> tensors;
  size_t reductions = 0;
};

/// Clusters with a phase beyond the limits of a kernel.
std::set<int32_t> oversized(const Graph& graph, const std::vector<int32_t>& cluster,
                            const std::vector<int32_t>& phase) {
  std::map<std::pair<int32_t, int32_t>, PhaseSize> sizes;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (cluster[i] < 0) continue;
    PhaseSize& size = sizes[{cluster[i], phase[i]}];
    size.reductions += ir::is_reduce(graph.node(ValueId{i}).op) ? 1 : 0;
    for (ValueId operand : graph.node(ValueId{i}).args()) {
      const bool inside = cluster[operand.v] == cluster[i] && phase[operand.v] == phase[i];
      if (!graph.is_scalar(operand) && !inside) size.tensors.insert(operand);
    }
  }
  for (const ir::Output& output : graph.outputs())
    if (cluster[output.value.v] >= 0)
      sizes[{cluster[output.value.v], phase[output.value.v]}].tensors.insert(output.value);
  for (uint32_t i = 0; i < graph.size(); ++i)
    for (ValueId operand : graph.node(ValueId{i}).args())
      if (cluster[operand.v] >= 0 && (cluster[operand.v] != cluster[i] || phase[operand.v] != phase[i]))
        sizes[{cluster[operand.v], phase[operand.v]}].tensors.insert(operand);
  std::set<int32_t> too_large;
  for (const auto& [key, size] : sizes)
    if (size.tensors.size() > kMaxKernelArgs || size.reductions > kMaxKernelReductions) too_large.insert(key.first);
  return too_large;
}

std::vector<int32_t> assign_phases(const Graph& graph, const std::vector<int32_t>& cluster) {
  std::vector<int32_t> phase(graph.size(), 0);
  std::map<std::pair<int32_t, int32_t>, int> cut;  // (cluster, phase) -> kind of cut
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const ValueId id{i};
    if (cluster[i] < 0) continue;
    for (ValueId operand : graph.node(id).args()) {
      if (cluster[operand.v] != cluster[i]) continue;
      phase[i] = std::max(phase[i], phase[operand.v] + (ir::is_reduce(graph.node(operand).op) ? 1 : 0));
    }
    if (!ir::is_reduce(graph.node(id).op)) continue;
    while (cut.emplace(std::pair(cluster[i], phase[i]), reduction_cut(graph, id)).first->second !=
           reduction_cut(graph, id))
      ++phase[i];
  }
  return phase;
}

/// Ops of clusters beyond the limits of a kernel run one by one.
void dissolve_oversized(const Graph& graph, std::vector<int32_t>& cluster, std::vector<int32_t>& phase,
                        const PassContext& context) {
  const auto too_large = oversized(graph, cluster, phase);
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (!too_large.contains(cluster[i])) continue;
    cluster[i] = -1;
    phase[i] = 0;
  }
  for (int32_t c : too_large)
    context.record(
        {"fuse",
         fmt::format("{} cluster {}", graph.name, c),
         false,
         fmt::format("it would touch more than {} tensors or carry more than {} reductions; its ops run one by one",
                     kMaxKernelArgs, kMaxKernelReductions),
         {},
         {}});
}

void record_clusters(const Graph& graph, const PassContext& context) {
  std::map<int32_t, std::pair<int64_t, int32_t>> sizes;  // cluster -> (ops, phases)
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const Placement placement = graph.placement(ValueId{i});
    if (placement.cluster < 0) continue;
    auto& [ops, phases] = sizes[placement.cluster];
    ++ops;
    phases = std::max(phases, placement.phase + 1);
  }
  for (const auto& [cluster, size] : sizes)
    context.record({"fuse",
                    fmt::format("{} cluster {}", graph.name, cluster),
                    true,
                    fmt::format("{} ops cover the same elements between the same products; {} phase{}", size.first,
                                size.second, size.second == 1 ? "" : "s"),
                    fmt::format("{} launches and their intermediates", size.first - 1),
                    {fmt::format("{} kernels", size.first)}});
}

}  // namespace

bool fuse_elementwise(Graph& graph, const PassContext& context) {
  bool changed = drop_dead(graph, context);
  const Stages stages(graph);
  std::vector<int32_t> cluster = Clusters(graph, stages).ids();
  std::vector<int32_t> phase = assign_phases(graph, cluster);
  dissolve_oversized(graph, cluster, phase, context);
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const Placement placement{cluster[i], phase[i]};
    changed = changed || !(placement == graph.placement(ValueId{i}));
    graph.set_placement(ValueId{i}, placement);
  }
  record_clusters(graph, context);
  return changed;
}

}  // namespace stepfuse::compiler
