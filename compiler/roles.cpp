// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/roles.h"

#include "ir/namer.h"

#include <algorithm>
#include <map>

namespace stepfuse::compiler {

namespace {

std::string fused_role(size_t step, int64_t first_product, int64_t last_product) {
  const auto index = static_cast<int64_t>(step);
  if (last_product < 0) return "update";
  return index < first_product ? "pre" : index > last_product ? "post" : "mid";
}

std::string node_role(const GroupPlan& group, const GroupStep& step) {
  const std::string& name = group.graph.value_name(step.node);
  return name.empty() ? std::string(step_kind_name(step.kind)) : name;
}

}  // namespace

void name_values(GroupPlan& group) {
  const ir::NodeNamer namer(group.graph);
  for (uint32_t i = 0; i < group.graph.size(); ++i) group.names.push_back(namer.name(ir::ValueId{i}));
}

void name_roles(GroupPlan& group) {
  int64_t first_product = -1;
  int64_t last_product = -1;
  for (size_t s = 0; s < group.steps.size(); ++s) {
    if (group.steps[s].kind != StepKind::Product) continue;
    last_product = static_cast<int64_t>(s);
    if (first_product < 0) first_product = last_product;
  }
  std::map<std::string, int> seen;
  for (size_t s = 0; s < group.steps.size(); ++s) {
    GroupStep& step = group.steps[s];
    if (step.kind == StepKind::Fused) step.role = fused_role(s, first_product, last_product);
    if (step.kind != StepKind::Fused && step.kind != StepKind::Copy) step.role = node_role(group, step);
    const int count = ++seen[step.role];
    if (count > 1) step.role += std::to_string(count);
  }
}

}  // namespace stepfuse::compiler
