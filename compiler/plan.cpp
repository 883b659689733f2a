// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan.h"

#include "compiler/branches.h"
#include "compiler/memory.h"
#include "compiler/pad_rows.h"
#include "compiler/passes/passes.h"
#include "compiler/schedule.h"
#include "compiler/signature.h"
#include "compiler/stage_operands.h"
#include "compiler/verify_plan.h"
#include "ir/print.h"
#include "ir/verify.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace stepfuse::compiler {

using ir::ValueId;

namespace {

/// Part of the signature: strides belong to a kernel's addresses. Empty when all is dense.
std::string layout_text(const std::vector<Strides>& layouts) {
  std::string text;
  for (size_t i = 0; i < layouts.size(); ++i)
    if (!layouts[i].empty()) text += fmt::format(" {}:[{}]", i, fmt::join(layouts[i], ","));
  return text;
}

/// Parameters by signature, in order of first appearance; empty parameters need no work and are left out.
Result<std::vector<GroupPlan>> form_groups(const std::vector<PlannedParameter>& parameters) {
  std::vector<GroupPlan> groups;
  std::map<std::string, size_t> by_signature;
  std::unordered_map<uint32_t, size_t> by_likeness;
  for (uint32_t i = 0; i < parameters.size(); ++i) {
    const PlannedParameter& parameter = parameters[i];
    if (element_count(parameter.shape) == 0) continue;
    if (const auto known = by_likeness.find(parameter.alike); known != by_likeness.end()) {
      groups[known->second].members.push_back(i);
      continue;
    }
    auto laid_out = lay_out(parameter.rule, parameter.shape, parameter.layouts);
    if (!laid_out)
      return fail(Status{laid_out.error().code,
                         fmt::format("parameter '{}': {}", parameter.name, laid_out.error().message),
                         laid_out.error().hint});
    ir::Graph& rule = laid_out->rule;
    // Where kernels begin and end is for the fuse pass to say, not for the rule's text.
    for (uint32_t v = 0; v < rule.size(); ++v) rule.set_placement(ValueId{v}, {});
    const auto [it, is_new] = by_signature.emplace(signature(rule) + layout_text(laid_out->layouts), groups.size());
    if (is_new) {
      GroupPlan group;
      group.symbolic = is_shape_free(rule);
      group.layouts = std::move(laid_out->layouts);
      group.graph = rule;
      group.naive = std::move(rule);
      group.peer = parameter.peer;
      groups.push_back(std::move(group));
    }
    groups[it->second].members.push_back(i);
    if (parameter.alike != 0) by_likeness.emplace(parameter.alike, it->second);
  }
  return groups;
}

/// How many members run together: all of an elementwise rule, matrices up to a memory cap, one where switched off.
void choose_batch(GroupPlan& group, const PlanOptions& options) {
  const auto count = static_cast<int64_t>(group.members.size());
  const bool matrices = !group.symbolic;
  const char* pass = matrices ? "batch" : "horizontal";
  const bool off = options.runner.is_disabled(pass);
  const int64_t bytes = matrices ? member_bytes(group, 0) : 0;
  group.members_per_batch = off ? 1 : bytes == 0 ? count : std::clamp<int64_t>(options.batch_bytes / bytes, 1, count);
  Decision decision{pass, group.graph.name, group.members_per_batch > 1, {}, {}, {}};
  if (off) {
    decision.why = "switched off by name";
  } else if (count == 1) {
    decision.why = "one parameter has this signature";
  } else if (matrices) {
    decision.why = fmt::format("{} matrices of one shape, {} at a time: {} bytes of scratch each, cap {}", count,
                               group.members_per_batch, bytes, options.batch_bytes);
  } else {
    decision.why = fmt::format("{} parameters follow one rule, whatever their shapes", count);
  }
  if (decision.taken) {
    decision.saves = fmt::format("{} launches", (count - group.batches()) * static_cast<int64_t>(group.steps.size()));
    decision.alternatives = {fmt::format("one by one: {} launches", count * static_cast<int64_t>(group.steps.size()))};
  }
  group.decisions.push_back(std::move(decision));
}

/// Whether an input's strides reach what lies in its place.
bool is_strided(const GroupPlan& group, ValueId id) {
  const Slot slot = group.slots[id.v];
  return slot.kind == Slot::Kind::Input && !group.layouts.empty() && !group.layouts[slot.index].empty();
}

/// A reduction over a whole batch runs over its elements in one line, so everything it is fused with must lie in one.
Outcome check_batch_reduction(const GroupPlan& group, const std::vector<ValueId>& nodes) {
  const ir::Graph& graph = group.graph;
  const ir::Shape domain = phase_domain(graph, nodes);
  const bool batched = domain.from_end(2) != ir::Extent::of(1);
  const bool reduces_all = std::any_of(nodes.begin(), nodes.end(), [&](ValueId id) {
    const auto* reduce = std::get_if<ir::ReduceAttr>(&graph.node(id).attr);
    return reduce != nullptr && reduce->axis == ir::Axis::All;
  });
  if (!batched || !reduces_all) return {};
  const auto refuse_strided = [&](ValueId id) {
    return with_hint(
        fail(StatusCode::Unsupported, "rule {}: {} is not dense, and is used with a reduction over all of a batch",
             graph.name, value_label(graph, id)),
        "make the tensor contiguous, or reduce over 'matrix' first, then over 'all'");
  };
  for (ValueId id : nodes) {
    if (is_strided(group, id)) return refuse_strided(id);
    for (ValueId operand : graph.node(id).args()) {
      if (is_strided(group, operand)) return refuse_strided(operand);
      if (!graph.is_scalar(operand) && !is_one_element(graph, operand) &&
          (ir::is_view(graph.node(operand).op) || graph.node(operand).type.shape != domain))
        return with_hint(fail(StatusCode::Unsupported,
                              "rule {}: {} is a view or repeats, and is used with a reduction over all of a batch",
                              graph.name, value_label(graph, operand)),
                         "reduce over 'matrix' first, then over 'all'");
    }
  }
  return {};
}

/// What the backends do not do yet, in the user's words.
Outcome check_supported(const GroupPlan& group) {
  const ir::Graph& graph = group.graph;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const ir::Node& node = graph.node(ValueId{i});
    if (node.op == ir::Op::Matmul && node.num_operands == 5 && is_transposed_view(graph, node.operands[2]))
      return with_hint(fail(StatusCode::Unsupported, "rule {}: C of the product {} is a transposed view", graph.name,
                            value_label(graph, ValueId{i})),
                       "compute the product's transpose instead, or add C in an op of its own");
  }
  for (const GroupStep& step : group.steps)
    for (const auto& nodes : step.phases) STEPFUSE_TRY(check_batch_reduction(group, nodes));
  return {};
}

Outcome plan_group(GroupPlan& group, const PlanOptions& options) {
  const bool batched = !options.runner.is_disabled(group.symbolic ? "horizontal" : "batch");
  const PassContext context{options.mode, options.target, batched ? static_cast<int64_t>(group.members.size()) : 1,
                            &group.decisions, group.layouts};
  STEPFUSE_TRY(run_passes(group.graph, context, options.runner));
  stage_operands(group.graph, context);
  schedule(group);
  if (!options.runner.is_disabled("pad_rows")) pad_rows(group, context);
  STEPFUSE_TRY(check_supported(group));
  assign_lanes(group, !options.runner.is_disabled("reuse_memory"));
  choose_batch(group, options);
  return {};
}

void append_launches(StepPlan& plan, uint32_t g) {
  const GroupPlan& group = plan.groups[g];
  const auto count = static_cast<int64_t>(group.members.size());
  for (int64_t first = 0; first < count; first += group.members_per_batch) {
    const auto members = static_cast<uint32_t>(std::min(group.members_per_batch, count - first));
    for (uint32_t s = 0; s < group.steps.size(); ++s)
      plan.launches.push_back({g, s, static_cast<uint32_t>(first), members});
  }
}

}  // namespace

std::string_view step_kind_name(StepKind kind) {
  constexpr std::array<std::string_view, 5> kNames{"fused", "product", "adddiag", "concat", "copy"};
  return kNames[static_cast<size_t>(kind)];
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

Result<StepPlan> make_plan(const std::vector<PlannedParameter>& parameters, const PlanOptions& options) {
  for (const std::string& name : options.runner.disabled) STEPFUSE_TRY(find_pass(name).map([](const PassInfo*) {}));
  StepPlan plan;
  plan.mode = options.mode;
  plan.disabled = options.runner.disabled;
  plan.target = options.target;
  STEPFUSE_ASSIGN(plan.groups, form_groups(parameters));
  for (uint32_t g = 0; g < plan.groups.size(); ++g) {
    STEPFUSE_TRY(plan_group(plan.groups[g], options));
    append_launches(plan, g);
  }
  const bool one_branch = options.runner.is_disabled("branches");
  place_branches(plan, parameters, one_branch ? 1 : options.target.branches, options.branch_bytes);
  const auto problems = verify_plan(plan);
  if (!problems.empty()) return fail(StatusCode::Internal, "the plan does not hold: {}", fmt::join(problems, "; "));
  return plan;
}

namespace {

std::string slot_text(const GroupPlan& group, Slot slot) {
  switch (slot.kind) {
    case Slot::Kind::None:
      return "register";
    case Slot::Kind::Input:
      return "in place over %" + group.graph.inputs()[slot.index].name;
    case Slot::Kind::Scratch:
      return fmt::format("scratch lane {}", group.buffers[slot.index].lane);
  }
  return {};
}

std::string step_text(const GroupPlan& group, const GroupStep& step) {
  std::string text = fmt::format("  {:<8} {}\n", step_kind_name(step.kind), step.role);
  const auto line = [&](ValueId id, const std::string& phase) {
    text += fmt::format("    {}{} = {} -> {}\n", phase, value_label(group.graph, id),
                        ir::op_info(group.graph.node(id).op).mnemonic, slot_text(group, group.slots[id.v]));
  };
  if (step.kind == StepKind::Copy)
    return text + fmt::format("    {} -> {}\n", slot_text(group, step.from.slot), slot_text(group, step.to));
  if (step.kind != StepKind::Fused) line(step.node, "");
  for (size_t p = 0; p < step.phases.size(); ++p)
    for (ValueId id : step.phases[p]) line(id, step.phases.size() > 1 ? fmt::format("phase {}: ", p) : "");
  return text;
}

}  // namespace

std::string print_plan(const StepPlan& plan, const std::vector<PlannedParameter>& parameters) {
  std::string text = fmt::format("plan: {} groups, {} launches, {} bytes of workspace\n", plan.groups.size(),
                                 plan.launches.size(), plan.workspace_bytes);
  for (size_t b = 0; b < plan.branches.size() && plan.branches.size() > 1; ++b)
    text += fmt::format("branch {}: {} batches, {} bytes of workspace\n", b, plan.branches[b].launches.size(),
                        plan.branches[b].workspace_bytes);
  for (const GroupPlan& group : plan.groups) {
    text += fmt::format("group {}: {} parameters in {} batches of at most {}\n", group.graph.name, group.members.size(),
                        group.batches(), group.members_per_batch);
    for (size_t i = 0; i < group.layouts.size(); ++i)
      if (!group.layouts[i].empty())
        text +=
            fmt::format("  %{} has strides [{}]\n", group.graph.inputs()[i].name, fmt::join(group.layouts[i], ", "));
    for (uint32_t member : group.members)
      text += fmt::format("  for {} [{}]\n", parameters[member].name, fmt::join(parameters[member].shape, ", "));
    for (const GroupStep& step : group.steps) text += step_text(group, step);
    for (size_t lane = 0; lane < group.lane_bytes.size(); ++lane)
      text += fmt::format("  lane {}: {} bytes {}\n", lane, group.lane_bytes[lane],
                          group.symbolic ? "per element" : "per parameter");
  }
  return text;
}

}  // namespace stepfuse::compiler
