// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/explain.h"

#include "compiler/verify_plan.h"

#include <nlohmann/json.hpp>

namespace stepfuse::compiler {

using nlohmann::ordered_json;

namespace {

ordered_json launches_json(const LaunchCounts& counts) {
  return {{"launches", counts.total()},
          {"elementwise_launches", counts.elementwise},
          {"gemms", counts.gemms},
          {"aux_launches", counts.aux}};
}

ordered_json decision_json(const Decision& decision) {
  return {{"pass", decision.pass}, {"subject", decision.subject}, {"taken", decision.taken},
          {"why", decision.why},   {"saves", decision.saves},     {"alternatives", decision.alternatives}};
}

std::vector<const Decision*> all_decisions(const StepPlan& plan, const BackendNotes& notes) {
  std::vector<const Decision*> decisions;
  for (const GroupPlan& group : plan.groups)
    for (const Decision& decision : group.decisions) decisions.push_back(&decision);
  for (const Decision& decision : notes) decisions.push_back(&decision);
  return decisions;
}

ordered_json summary_json(const StepPlan& plan, const std::vector<PlannedParameter>& parameters) {
  const PlanCounts counts = count_plan(plan, parameters);
  ordered_json fused = launches_json(counts.fused);
  fused["gemm_flops"] = counts.gemm_flops;
  fused["bytes_per_param"] = counts.bytes_per_param;
  fused["workspace_bytes"] = plan.workspace_bytes;
  fused["host_syncs"] = host_syncs(plan).size();
  fused["graph_launches"] = plan.target.captures_step && !plan.launches.empty() ? 1 : 0;
  return {{"parameters", counts.parameters},
          {"naive", launches_json(counts.naive)},
          {"peer_eager", launches_json(counts.peer_eager)},
          {"fused", fused}};
}

ordered_json group_json(const GroupPlan& group, const std::vector<PlannedParameter>& parameters) {
  ordered_json steps = ordered_json::array();
  for (const GroupStep& step : group.steps) {
    ordered_json entry{{"kind", step_kind_name(step.kind)}, {"role", step.role}};
    if (step.kind == StepKind::Fused) entry["phases"] = step.phases.size();
    steps.push_back(entry);
  }
  ordered_json names = ordered_json::array();
  for (uint32_t member : group.members) names.push_back(parameters[member].name);
  return {{"rule", group.graph.name},
          {"peer", group.peer.peer},
          {"parameters", names},
          {"batches", group.batches()},
          {"per_batch", group.members_per_batch},
          {"steps", steps}};
}

std::string decision_text(const Decision& decision) {
  std::string text =
      fmt::format("  {} {:<16} {}: {}\n", decision.taken ? "+" : "-", decision.pass, decision.subject, decision.why);
  if (!decision.saves.empty()) text += fmt::format("      saves {}\n", decision.saves);
  for (const std::string& lost : decision.alternatives) text += fmt::format("      instead of: {}\n", lost);
  return text;
}

std::string counts_line(std::string_view name, const LaunchCounts& counts) {
  return fmt::format("  {:<11} {:>6} launches: {} elementwise, {} products, {} auxiliary\n", name, counts.total(),
                     counts.elementwise, counts.gemms, counts.aux);
}

}  // namespace

ordered_json explain_json(const StepPlan& plan, const std::vector<PlannedParameter>& parameters,
                          const BackendNotes& notes) {
  ordered_json groups = ordered_json::array();
  for (const GroupPlan& group : plan.groups) groups.push_back(group_json(group, parameters));
  ordered_json decisions = ordered_json::array();
  for (const Decision* decision : all_decisions(plan, notes)) decisions.push_back(decision_json(*decision));
  return {{"schema", 1},
          {"target", plan.target.name},
          {"mode", plan.mode == ir::Mode::Strict ? "strict" : "default"},
          {"summary", summary_json(plan, parameters)},
          {"groups", groups},
          {"decisions", decisions}};
}

std::string explain_text(const StepPlan& plan, const std::vector<PlannedParameter>& parameters,
                         const BackendNotes& notes) {
  const PlanCounts counts = count_plan(plan, parameters);
  std::string text =
      fmt::format("{} parameters in {} groups, target {}, {} numerics\n", counts.parameters, plan.groups.size(),
                  plan.target.name, plan.mode == ir::Mode::Strict ? "strict" : "default");
  text += counts_line("naive", counts.naive) + counts_line("peer eager", counts.peer_eager) +
          counts_line("fused", counts.fused);
  text += fmt::format(
      "  {:.4g} bytes per parameter by kernels, {:.4g} GFLOP in products, {} bytes of workspace, {} host syncs\n",
      counts.bytes_per_param, counts.gemm_flops * 1e-9, plan.workspace_bytes, host_syncs(plan).size());
  for (const GroupPlan& group : plan.groups)
    text += fmt::format("group {} (peer: {}): {} parameters, {} batches, {} steps\n", group.graph.name,
                        group.peer.peer.empty() ? "none" : group.peer.peer, group.members.size(), group.batches(),
                        group.steps.size());
  text += "decisions (+ taken, - not)\n";
  for (const Decision* decision : all_decisions(plan, notes)) text += decision_text(*decision);
  return text;
}

}  // namespace stepfuse::compiler
