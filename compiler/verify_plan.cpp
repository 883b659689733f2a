// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/verify_plan.h"

#include "compiler/dependencies.h"
#include "compiler/passes/passes.h"
#include "compiler/schedule.h"

#include <map>

namespace stepfuse::compiler {

using ir::Graph;
using ir::ValueId;

namespace {

/// A piece of memory: an input, or a lane of the scratch.
using Place = std::pair<Slot::Kind, uint32_t>;

class PaperRun {
 public:
  PaperRun(const GroupPlan& group, std::vector<std::string>& problems)
      : group_(group), graph_(group.graph), problems_(problems) {
    for (const ir::Input& input : graph_.inputs())
      if (!input.type.scalar) holds_[place(group.slots[input.value.v])] = input.value;
  }

  void run() {
    for (const GroupStep& step : group_.steps) {
      if (step.kind == StepKind::Copy) {
        copy(step);
      } else if (step.kind == StepKind::Fused) {
        for (const auto& nodes : step.phases) run_phase(step, nodes);
      } else {
        run_single(step);
      }
    }
    for (const ir::Output& output : graph_.outputs()) check_output(output);
  }

 private:
  Place place(Slot slot) const {
    return {slot.kind, slot.kind == Slot::Kind::Scratch ? group_.buffers[slot.index].lane : slot.index};
  }

  void report(const GroupStep& step, const std::string& what) {
    problems_.push_back(fmt::format("{}, step {}: {}", graph_.name, step.role, what));
  }

  /// `id` must be in its slot now.
  void read(const GroupStep& step, ValueId id) {
    const ValueId base = view_base(graph_, id);
    const Slot slot = group_.slots[base.v];
    if (slot.kind == Slot::Kind::None) return report(step, value_label(graph_, base) + " is read but has no memory");
    const auto it = holds_.find(place(slot));
    if (it == holds_.end()) return report(step, value_label(graph_, base) + " is read before it is written");
    if (it->second != base)
      report(step, fmt::format("{} is read after {} took its place", value_label(graph_, base),
                               value_label(graph_, it->second)));
  }

  void run_phase(const GroupStep& step, const std::vector<ValueId>& nodes) {
    std::vector<bool> here(graph_.size(), false);
    for (ValueId id : nodes) {
      for (ValueId operand : graph_.node(id).args())
        if (!graph_.is_scalar(operand) && !here[operand.v]) read(step, operand);
      here[id.v] = !ir::is_reduce(graph_.node(id).op);
    }
    for (ValueId id : nodes) write(step, id, &nodes);
  }

  void run_single(const GroupStep& step) {
    for (ValueId operand : graph_.node(step.node).args())
      if (!graph_.is_scalar(operand)) read(step, operand);
    write(step, step.node, nullptr);
  }

  /// A store over memory that the same phase reads is safe only element by element.
  void write(const GroupStep& step, ValueId id, const std::vector<ValueId>* phase) {
    const Slot slot = group_.slots[id.v];
    if (slot.kind == Slot::Kind::None) return;
    const auto old = holds_.find(place(slot));
    if (old != holds_.end()) {
      if (phase == nullptr) {
        check_single_overwrite(step, id, old->second);
      } else {
        check_overwrite(step, id, old->second, *phase);
      }
    }
    holds_[place(slot)] = id;
  }

  void check_overwrite(const GroupStep& step, ValueId id, ValueId old, const std::vector<ValueId>& phase) {
    const ir::Shape domain = phase_domain(graph_, phase);
    for (ValueId reader : phase) {
      for (ValueId operand : graph_.node(reader).args()) {
        if (graph_.is_scalar(operand) || view_base(graph_, operand) != old) continue;
        const bool together =
            operand == old && graph_.node(old).type.shape == domain && graph_.node(id).type.shape == domain;
        if (!together) report_overwrite(step, id, old);
      }
    }
  }

  /// A product may replace its C, and adddiag its matrix: each element is read where it is written. Factors of a
  /// product are read before it starts. Other operands are read while results are written.
  void check_single_overwrite(const GroupStep& step, ValueId id, ValueId old) {
    const ir::Node& node = graph_.node(id);
    const bool has_c = node.op == ir::Op::Matmul && node.num_operands == 5;
    for (size_t k = 0; k < (has_c ? 3U : 2U); ++k) {
      const ValueId operand = node.operands[k];
      if (graph_.is_scalar(operand) || view_base(graph_, operand) != old) continue;
      const bool in_place = operand == old && (has_c ? k == 2 : node.op == ir::Op::AddDiag);
      if (!in_place) report_overwrite(step, id, old);
    }
  }

  void report_overwrite(const GroupStep& step, ValueId id, ValueId old) {
    report(step, fmt::format("{} overwrites {} while other elements of it are read", value_label(graph_, id),
                             value_label(graph_, old)));
  }

  void copy(const GroupStep& step) {
    const auto it = holds_.find(place(step.from.slot));
    if (it == holds_.end()) return report(step, "copies memory that was never written");
    holds_[place(step.to)] = it->second;
  }

  void check_output(const ir::Output& output) {
    const auto it = holds_.find(place(group_.slots[output.target.v]));
    if (it != holds_.end() && it->second == view_base(graph_, output.value)) return;
    problems_.push_back(fmt::format("{}: {} does not end up in {}", graph_.name, value_label(graph_, output.value),
                                    value_label(graph_, output.target)));
  }

  const GroupPlan& group_;
  const Graph& graph_;
  std::vector<std::string>& problems_;
  std::map<Place, ValueId> holds_;
};

void check_launches(const StepPlan& plan, std::vector<std::string>& problems) {
  std::map<std::pair<uint32_t, uint32_t>, int64_t> covered;  // (group, step) -> members
  for (const Launch& launch : plan.launches) covered[{launch.group, launch.step}] += launch.count;
  for (uint32_t g = 0; g < plan.groups.size(); ++g)
    for (uint32_t s = 0; s < plan.groups[g].steps.size(); ++s)
      if (covered[{g, s}] != static_cast<int64_t>(plan.groups[g].members.size()))
        problems.push_back(fmt::format("{}, step {}: launches cover {} of {} members", plan.groups[g].graph.name,
                                       plan.groups[g].steps[s].role, covered[{g, s}], plan.groups[g].members.size()));
}

}  // namespace

std::vector<std::string> verify_plan(const StepPlan& plan) {
  std::vector<std::string> problems;
  for (const GroupPlan& group : plan.groups) PaperRun(group, problems).run();
  check_launches(plan, problems);
  return problems;
}

namespace {

/// A product's factor that is a tensor, not a scalar of the step.
bool has_device_factor(const Graph& graph, ValueId product) {
  const ir::Node& node = graph.node(product);
  const size_t first = node.num_operands == 5 ? 3 : 2;
  for (size_t k = first; k < node.num_operands; ++k)
    if (!graph.is_scalar(node.operands[k])) return true;
  return false;
}

}  // namespace

std::vector<std::string> host_syncs(const StepPlan& plan) {
  std::vector<std::string> waits;
  if (plan.target.factors_in_memory) return waits;
  for (const Launch& launch : plan.launches) {
    const GroupPlan& group = plan.groups[launch.group];
    const GroupStep& step = group.steps[launch.step];
    if (step.kind == StepKind::Product && has_device_factor(group.graph, step.node))
      waits.push_back(fmt::format("{}, step {}: alpha or beta is computed on the device", group.graph.name, step.role));
  }
  return waits;
}

}  // namespace stepfuse::compiler
