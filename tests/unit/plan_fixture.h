// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of plans share: rules in, a step plan out.

#include "compiler/counts.h"
#include "compiler/memory.h"
#include "compiler/plan.h"
#include "compiler/verify_plan.h"
#include "ir/optimizers/recipe.h"
#include "tests/unit/pass_fixture.h"

namespace stepfuse::compiler {

inline PlannedParameter planned(const std::string& name, const std::vector<int64_t>& shape, const std::string& text) {
  return {name, shape, rule_of(text), {}};
}

inline PlannedParameter planned_recipe(const std::string& name, const std::vector<int64_t>& shape,
                                       const std::string& recipe, const ir::OptionList& options = {}) {
  const ir::Recipe* found = *ir::find_recipe(recipe);
  const auto values = ir::parse_options(recipe, found->options(), options);
  EXPECT_TRUE(values.has_value()) << values.error().message;
  return {name, shape, *found->build(*values, {.shape = shape}), found->peer_eager(*values)};
}

inline PlanOptions plan_options(ir::Mode mode, std::vector<std::string> disabled = {}) {
  PlanOptions options;
  options.mode = mode;
  options.target.symmetric_products = true;
  options.runner.disabled = std::move(disabled);
  return options;
}

inline StepPlan plan_of(const std::vector<PlannedParameter>& parameters, const PlanOptions& options = {}) {
  auto plan = make_plan(parameters, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  if (!plan) return {};
  EXPECT_THAT(verify_plan(*plan), testing::IsEmpty()) << print_plan(*plan, parameters);
  EXPECT_THAT(host_syncs(*plan), testing::IsEmpty());
  return std::move(*plan);
}

inline StepPlan plan_of(const std::string& text, const std::vector<int64_t>& shape, const PlanOptions& options = {}) {
  return plan_of({planned("w", shape, text)}, options);
}

/// "fused product fused": the kinds of a group's steps.
inline std::string kinds(const GroupPlan& group) {
  std::string text;
  for (const GroupStep& step : group.steps) text += (text.empty() ? "" : " ") + std::string(step_kind_name(step.kind));
  return text;
}

inline ir::ValueId value_named(const ir::Graph& graph, const std::string& name) {
  for (uint32_t i = 0; i < graph.size(); ++i)
    if (graph.value_name(ir::ValueId{i}) == name) return ir::ValueId{i};
  ADD_FAILURE() << "no value %" << name << "\n" << ir::print(graph);
  return {0};
}

inline Slot slot_of(const GroupPlan& group, const std::string& name) {
  return group.slots[value_named(group.graph, name).v];
}

/// The slot of the input called `name`.
inline Slot input_slot(const GroupPlan& group, const std::string& name) {
  return group.slots[group.graph.find_input(name)->value.v];
}

}  // namespace stepfuse::compiler
