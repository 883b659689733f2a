// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/branches.h"

#include "compiler/memory.h"

#include <algorithm>

namespace stepfuse::compiler {

namespace {

struct Batch {
  uint32_t launch = 0;  // its first
  int64_t bytes = 0;    // of scratch
  double work = 0;      // elements that its launches walk; a product walks its row or column for each
};

double member_work(const GroupPlan& group, int64_t elements) {
  double work = 0;
  for (const GroupStep& step : group.steps) {
    double each = 1;
    if (step.kind == StepKind::Product) {
      const ir::Node& node = group.graph.node(step.node);
      const auto flags = std::get<ir::MatmulAttr>(node.attr);
      const ir::Type& a = group.graph.node(node.operands[0]).type;
      // Matrix units are some hundred times as fast as memory.
      each = static_cast<double>(a.shape.from_end(flags.trans_a ? 1 : 0).value()) / 100;
    }
    work += each * static_cast<double>(elements);
  }
  return work;
}

std::vector<Batch> batches_of(const StepPlan& plan, const std::vector<PlannedParameter>& parameters) {
  std::vector<Batch> batches;
  for (uint32_t l = 0; l < plan.launches.size(); ++l) {
    const Launch& launch = plan.launches[l];
    if (launch.step != 0) continue;
    const GroupPlan& group = plan.groups[launch.group];
    Batch batch{l, batch_workspace(plan, launch, parameters), 0};
    for (uint32_t m = 0; m < launch.count; ++m)
      batch.work += member_work(group, element_count(parameters[group.members[launch.first_member + m]].shape));
    batches.push_back(batch);
  }
  return batches;
}

std::vector<Branch> spread(std::span<const Batch> heaviest_first, size_t count) {
  std::vector<Branch> branches(count);
  std::vector<double> work(count, 0);
  for (const Batch& batch : heaviest_first) {
    const auto least = static_cast<size_t>(std::min_element(work.begin(), work.end()) - work.begin());
    branches[least].launches.push_back(batch.launch);
    branches[least].workspace_bytes = std::max(branches[least].workspace_bytes, batch.bytes);
    work[least] += batch.work;
  }
  return branches;
}

int64_t total_bytes(std::span<const Branch> branches) {
  int64_t bytes = 0;
  for (const Branch& branch : branches) bytes += branch.workspace_bytes;
  return bytes;
}

}  // namespace

int64_t batch_workspace(const StepPlan& plan, const Launch& first, const std::vector<PlannedParameter>& parameters) {
  const GroupPlan& group = plan.groups[first.group];
  int64_t bytes = 0;
  for (uint32_t m = 0; m < first.count; ++m)
    bytes += member_bytes(group, element_count(parameters[group.members[first.first_member + m]].shape));
  return bytes;
}

void place_branches(StepPlan& plan, const std::vector<PlannedParameter>& parameters, int64_t branches,
                    int64_t most_bytes) {
  std::vector<Batch> batches = batches_of(plan, parameters);
  std::stable_sort(batches.begin(), batches.end(), [](const Batch& a, const Batch& b) { return a.work > b.work; });
  auto count = std::min(static_cast<size_t>(branches), batches.size());
  do {
    plan.branches = spread(batches, std::max(count, size_t{1}));
    plan.workspace_bytes = total_bytes(plan.branches);
  } while (plan.workspace_bytes > most_bytes && count-- > 1);
}

}  // namespace stepfuse::compiler
