// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_kernels.h"

#include "codegen/lower_group.h"
#include "compiler/memory.h"
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu_backend.h"
#include "runtime/cuda_backend.h"

#include <algorithm>
#include <array>
#include <set>

#include <nlohmann/json.hpp>

namespace stepfuse::runtime {

namespace {

/// What says where, when and by which file an entry was made, and is of no use to another machine.
constexpr std::array kProvenance{"created",   "compile_ms", "plugin",      "llvm_file", "llvm_bytes",
                                 "llvm_time", "nvrtc_file", "nvrtc_bytes", "nvrtc_time"};

Result<KernelMakers> backend_kernels(const compiler::StepPlan& plan, const Context& context) {
  if (plan.target.name == "interp") return KernelMakers();
  return is_cuda_target(plan.target.name) ? cuda_plan_kernels(plan, context) : cpu_plan_kernels(plan, context);
}

Result<KeyFields> target_fields(const compiler::StepPlan& plan, const Context& context) {
  return is_cuda_target(plan.target.name) ? cuda_target_fields(plan.target.name, context)
                                          : cpu_target_fields(plan.target.name);
}

/// A plan of one group, which has the kernels that this group needs.
compiler::StepPlan plan_of_group(const compiler::StepPlan& plan, uint32_t group) {
  compiler::StepPlan one{plan.mode, plan.disabled, plan.target, {plan.groups[group]}, {}, {}, plan.workspace_bytes};
  for (compiler::Launch launch : plan.launches) {
    if (launch.group != group) continue;
    launch.group = 0;
    one.launches.push_back(launch);
  }
  return one;
}

std::vector<ShapeKernel> kernels_of(const KernelMakers& makers) {
  std::vector<ShapeKernel> kernels;
  for (const auto& maker : makers)
    kernels.push_back({std::string(maker->name()), Key::of(EntryKind::Kernel, maker->key_fields()).hash.hex()});
  return kernels;
}

std::vector<ShapeLaunch> launches_of(const codegen::LoweredGroup& group, int64_t elements) {
  std::vector<ShapeLaunch> launches;
  for (size_t s = 0; s < group.steps.size(); ++s) {
    const codegen::LoweredStep& step = group.steps[s];
    ShapeLaunch launch{step.kind, group.plan->steps[s].role, {}, nullptr, {}};
    for (const codegen::LoweredPhase& phase : step.phases) launch.dims.push_back(codegen::phase_dims(phase, elements));
    if (step.kind == compiler::StepKind::Product) {
      launch.product = &step.product;
    } else if (step.kind != compiler::StepKind::Fused) {
      launch.dims.push_back(move_dims(step.move, elements));
    }
    launches.push_back(std::move(launch));
  }
  return launches;
}

}  // namespace

Result<KernelMakers> plan_kernels(const compiler::StepPlan& plan, const Context& context) {
  STEPFUSE_ASSIGN(KernelMakers all, backend_kernels(plan, context));
  // Kernels that do the same under two names have one key.
  KernelMakers distinct;
  std::set<std::string> seen;
  for (auto& maker : all)
    if (seen.insert(key_text(EntryKind::Kernel, maker->key_fields())).second) distinct.push_back(std::move(maker));
  return distinct;
}

std::string kernel_label(const KernelMaker& maker) {
  constexpr std::string_view kVariant = "\nvariant: ";
  const KeyFields fields = maker.key_fields();
  const std::string_view text = field(fields, "kernel");
  const size_t at = text.rfind(kVariant);
  if (at == std::string_view::npos) return std::string(maker.name());
  const std::string_view rest = text.substr(at + kVariant.size());
  return fmt::format("{}, {}", maker.name(), rest.substr(0, rest.find('\n')));
}

Result<std::vector<PlanShape>> plan_shapes(const compiler::StepPlan& plan,
                                           const std::vector<compiler::PlannedParameter>& parameters,
                                           const Context& context) {
  std::vector<PlanShape> shapes;
  if (plan.target.name == "interp") return shapes;
  STEPFUSE_ASSIGN(const KeyFields target, target_fields(plan, context));
  for (uint32_t g = 0; g < plan.groups.size(); ++g) {
    const compiler::GroupPlan& group = plan.groups[g];
    STEPFUSE_ASSIGN(const KernelMakers makers, plan_kernels(plan_of_group(plan, g), context));
    const std::vector<ShapeKernel> kernels = kernels_of(makers);
    const codegen::LoweredGroup lowered = codegen::lower_group(group, plan.mode);
    for (const GroupShape& shape : shapes_of(group, parameters)) {
      PlanShape out{shape, group.naive.name, parameters[shape.first_member].name, {}, {}, {}};
      const int64_t elements = compiler::element_count(shape.shape);
      out.fields = shape_fields(plan, group, shape.shape, target);
      out.key = Key::of(EntryKind::Shape, out.fields);
      out.entry = shape_entry(out.key, group, shape, kernels, launches_of(lowered, elements));
      shapes.push_back(std::move(out));
    }
  }
  return shapes;
}

Outcome record_plan_shapes(const compiler::StepPlan& plan, const std::vector<compiler::PlannedParameter>& parameters,
                           const Context& context) {
  Store& store = context.kernels().store();
  if (store.options().mode == CacheMode::Off) return {};
  STEPFUSE_ASSIGN(std::vector<PlanShape> shapes, plan_shapes(plan, parameters, context));
  for (PlanShape& shape : shapes) {
    const Store::Lookup found = store.find(shape.key, context.log());
    if (found.entry && found.entry->payload == shape.entry.payload) {
      ++store.counters().shape_hits;
      continue;
    }
    stamp_created(shape.entry);
    store.publish(shape.key, shape.entry, found.entry.has_value() || found.occupied, context.log());
  }
  return {};
}

Entry without_provenance(Entry entry) {
  auto json = nlohmann::ordered_json::parse(entry.metadata, nullptr, false);
  if (!json.is_object()) return entry;
  for (const char* name : kProvenance) json.erase(name);
  entry.metadata = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return entry;
}

std::optional<std::string> made_otherwise(const KeyFields& fields, const std::string& metadata,
                                          std::string_view plugin_dir) {
  return is_cuda_entry(fields) ? cuda_entry_made_otherwise(metadata) : compiled_otherwise(metadata, plugin_dir);
}

std::string problem_with(const Entry& entry) {
  const auto fields = parse_key_text(entry.preimage);
  if (entry.kind != EntryKind::Shape && fields && is_cuda_entry(*fields)) return cuda_entry_problem(entry);
  return cpu_entry_problem(entry);
}

}  // namespace stepfuse::runtime
