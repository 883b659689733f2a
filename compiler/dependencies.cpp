// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/dependencies.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

namespace stepfuse::compiler {

using ir::Graph;
using ir::Op;
using ir::ValueId;

bool is_fusible(const Graph& graph, ValueId id) {
  const ir::Node& node = graph.node(id);
  return !node.type.scalar && (ir::is_elementwise(node.op) || ir::is_reduce(node.op));
}

ValueId view_base(const Graph& graph, ValueId id) {
  while (ir::is_view(graph.node(id).op)) id = graph.node(id).operands[0];
  return id;
}

std::vector<std::vector<Reader>> readers_of(const Graph& graph) {
  std::vector<std::vector<Reader>> readers(graph.size());
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const ir::Node& node = graph.node(ValueId{i});
    if (ir::is_view(node.op)) continue;
    for (ValueId operand : node.args()) {
      const ValueId base = view_base(graph, operand);
      readers[base.v].push_back({ValueId{i}, base != operand});
    }
  }
  return readers;
}

namespace {

/// Units by index, and which unit each node belongs to.
struct UnitTable {
  std::vector<Unit> units;
  std::vector<int32_t> unit_of;
};

UnitTable make_units(const Graph& graph, const std::vector<int32_t>& cluster) {
  UnitTable table{{}, std::vector<int32_t>(graph.size(), -1)};
  std::map<int32_t, int32_t> unit_of_cluster;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const ir::Node& node = graph.node(ValueId{i});
    if (node.type.scalar || node.op == Op::Input || ir::is_view(node.op)) continue;
    auto index = static_cast<int32_t>(table.units.size());
    if (cluster[i] >= 0) index = unit_of_cluster.emplace(cluster[i], index).first->second;
    if (index == static_cast<int32_t>(table.units.size())) table.units.push_back({cluster[i], {}});
    table.units[static_cast<size_t>(index)].nodes.push_back(ValueId{i});
    table.unit_of[i] = index;
  }
  return table;
}

struct Edges {
  std::vector<std::set<int32_t>> next;
  std::vector<int32_t> waiting;
};

Edges make_edges(const Graph& graph, const UnitTable& table) {
  Edges edges{std::vector<std::set<int32_t>>(table.units.size()), std::vector<int32_t>(table.units.size(), 0)};
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const int32_t to = table.unit_of[i];
    if (to < 0) continue;
    for (ValueId operand : graph.node(ValueId{i}).args()) {
      const int32_t from = table.unit_of[view_base(graph, operand).v];
      if (from >= 0 && from != to && edges.next[static_cast<size_t>(from)].insert(to).second)
        ++edges.waiting[static_cast<size_t>(to)];
    }
  }
  return edges;
}

/// Of the units that still wait, those that others which wait depend on, again and again: what remains is on a cycle or
/// between two.
std::vector<size_t> units_on_cycles(const Edges& edges) {
  std::vector<bool> left(edges.next.size());
  for (size_t u = 0; u < left.size(); ++u) left[u] = edges.waiting[u] > 0;
  for (bool shrinking = true; shrinking;) {
    shrinking = false;
    for (size_t u = 0; u < left.size(); ++u) {
      const auto& next = edges.next[u];
      const bool leads_on =
          std::any_of(next.begin(), next.end(), [&](int32_t n) { return left[static_cast<size_t>(n)]; });
      if (!left[u] || leads_on) continue;
      left[u] = false;
      shrinking = true;
    }
  }
  std::vector<size_t> units;
  for (size_t u = 0; u < left.size(); ++u)
    if (left[u]) units.push_back(u);
  return units;
}

}  // namespace

std::optional<std::vector<Unit>> order_units(const Graph& graph, const std::vector<int32_t>& cluster,
                                             std::vector<int32_t>* stuck) {
  UnitTable table = make_units(graph, cluster);
  Edges edges = make_edges(graph, table);
  // The ready unit with the earliest node first: the order a person wrote.
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (size_t u = 0; u < table.units.size(); ++u)
    if (edges.waiting[u] == 0) ready.push(static_cast<int32_t>(u));
  std::vector<Unit> ordered;
  while (!ready.empty()) {
    const auto unit = static_cast<size_t>(ready.top());
    ready.pop();
    ordered.push_back(std::move(table.units[unit]));
    for (int32_t next : edges.next[unit])
      if (--edges.waiting[static_cast<size_t>(next)] == 0) ready.push(next);
  }
  if (ordered.size() == table.units.size()) return ordered;
  if (stuck != nullptr)
    for (size_t u : units_on_cycles(edges))
      if (table.units[u].cluster >= 0) stuck->push_back(table.units[u].cluster);
  return std::nullopt;
}

std::optional<std::vector<int32_t>> find_cycle(const Graph& graph, const std::vector<int32_t>& cluster) {
  std::vector<int32_t> stuck;
  if (order_units(graph, cluster, &stuck)) return std::nullopt;
  return stuck;
}

}  // namespace stepfuse::compiler
