// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0

// What a device would run at one time, and a scheduler that runs one operation after the other never sees: work of a
// library in two branches of a graph that shares memory, a workspace above all.
#include "tests/vgpu/driver/driver.h"

#include <algorithm>

namespace stepfuse::vgpu::driver {
namespace {

using Ranges = std::vector<VgpuRange>;

bool overlap(const Ranges& a, const Ranges& b) {
  return std::any_of(a.begin(), a.end(), [&](const VgpuRange& x) {
    return std::any_of(b.begin(), b.end(), [&](const VgpuRange& y) {
      return x.address < y.address + y.bytes && y.address < x.address + x.bytes;
    });
  });
}

bool conflict(const Work& a, const Work& b) {
  return overlap(a.writes, b.writes) || overlap(a.writes, b.reads) || overlap(a.reads, b.writes);
}

/// Of each node, which come before it.
std::vector<std::vector<bool>> ancestors_of(const GraphPlan& plan) {
  std::vector<std::vector<bool>> before(plan.nodes.size());
  const std::function<void(size_t)> visit = [&](size_t node) {
    if (!before[node].empty()) return;
    std::vector<bool> mine(plan.nodes.size());
    for (const size_t parent : plan.nodes[node].after) {
      visit(parent);
      mine[parent] = true;
      for (size_t i = 0; i < mine.size(); ++i) mine[i] = mine[i] || before[parent][i];
    }
    before[node] = std::move(mine);
  };
  // Captured nodes come after those they wait for, so that this seldom goes deep.
  for (size_t node = 0; node < plan.nodes.size(); ++node) visit(node);
  return before;
}

}  // namespace

std::string unordered_conflict(const GraphPlan& plan) {
  std::vector<size_t> libraries;
  for (size_t i = 0; i < plan.nodes.size(); ++i)
    if (!plan.nodes[i].work->writes.empty()) libraries.push_back(i);
  if (libraries.size() < 2) return "";
  const auto before = ancestors_of(plan);
  for (const size_t a : libraries)
    for (const size_t b : libraries) {
      if (a >= b || before[a][b] || before[b][a] || !conflict(*plan.nodes[a].work, *plan.nodes[b].work)) continue;
      return fmt::format("nodes {} ({}) and {} ({}) of a graph touch the same memory, and nothing orders them", a,
                         plan.nodes[a].work->label, b, plan.nodes[b].work->label);
    }
  return "";
}

}  // namespace stepfuse::vgpu::driver
