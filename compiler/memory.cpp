// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory.h"

#include "compiler/dependencies.h"
#include "compiler/schedule.h"

#include <algorithm>
#include <numeric>

namespace stepfuse::compiler {

using ir::ValueId;

namespace {

constexpr int64_t kAlignment = 64;  // a cache line, and the widest vector

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Lanes {
 public:
  explicit Lanes(GroupPlan& group)
      : group_(group), readers_(readers_of(group.graph)), moments_(defining_moments(group)) {}

  void assign() {
    std::vector<size_t> order(group_.buffers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return group_.buffers[a].first < group_.buffers[b].first; });
    for (size_t index : order) place(index);
  }

 private:
  void place(size_t index) {
    ScratchBuffer& buffer = group_.buffers[index];
    size_t best = group_.lane_bytes.size();
    for (size_t lane = 0; lane < group_.lane_bytes.size(); ++lane) {
      if (!is_free(lane, buffer) || group_.lane_bytes[lane] < buffer.bytes) continue;
      if (best == group_.lane_bytes.size() || group_.lane_bytes[lane] < group_.lane_bytes[best]) best = lane;
    }
    if (best == group_.lane_bytes.size()) {
      group_.lane_bytes.push_back(buffer.bytes);
      tenant_.push_back(index);
    }
    buffer.lane = static_cast<uint32_t>(best);
    tenant_[best] = index;
  }

  bool is_free(size_t lane, const ScratchBuffer& next) const {
    const ScratchBuffer& old = group_.buffers[tenant_[lane]];
    return old.last < next.first || (old.last == next.first && can_take_over(old, next));
  }

  /// The op that makes `next` reads the last of `old`, each element before it writes the same one.
  bool can_take_over(const ScratchBuffer& old, const ScratchBuffer& next) const {
    const GroupStep& step = group_.steps[static_cast<size_t>(next.first.step)];
    if (old.bytes != next.bytes || old.pitch != next.pitch ||
        group_.graph.node(old.value).type.dtype != group_.graph.node(next.value).type.dtype)
      return false;
    if (step.kind == StepKind::AddDiag) return group_.graph.node(step.node).operands[0] == old.value;
    if (step.kind != StepKind::Fused) return false;
    const auto& nodes = step.phases[static_cast<size_t>(next.first.phase)];
    const ir::Shape domain = phase_domain(group_.graph, nodes);
    const auto covers_domain = [&](ValueId id) { return group_.graph.node(id).type.shape == domain; };
    if (!covers_domain(old.value) || !covers_domain(next.value) || ir::is_reduce(group_.graph.node(next.value).op))
      return false;
    return std::none_of(readers_[old.value.v].begin(), readers_[old.value.v].end(),
                        [&](const Reader& r) { return r.through_view && moments_[r.id.v] == next.first; });
  }

  GroupPlan& group_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<Moment> moments_;
  std::vector<size_t> tenant_;  // the last buffer of each lane
};

}  // namespace

void assign_lanes(GroupPlan& group, bool reuse) {
  group.lane_bytes.clear();
  if (reuse) {
    Lanes(group).assign();
    return;
  }
  for (size_t i = 0; i < group.buffers.size(); ++i) {
    group.buffers[i].lane = static_cast<uint32_t>(i);
    group.lane_bytes.push_back(group.buffers[i].bytes);
  }
}

std::vector<int64_t> lane_offsets(const GroupPlan& group, int64_t elements) {
  std::vector<int64_t> offsets;
  int64_t at = 0;
  for (int64_t bytes : group.lane_bytes) {
    offsets.push_back(at);
    at += aligned(group.symbolic ? bytes * elements : bytes);
  }
  return offsets;
}

int64_t member_bytes(const GroupPlan& group, int64_t elements) {
  int64_t total = 0;
  for (int64_t bytes : group.lane_bytes) total += aligned(group.symbolic ? bytes * elements : bytes);
  return total;
}

}  // namespace stepfuse::compiler
