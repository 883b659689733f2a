// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/shape_entries.h"

#include "runtime/cache/shape_entry.h"
#include "runtime/cpu/cpu_kernels.h"

#include <algorithm>
#include <ctime>

#include <nlohmann/json.hpp>

namespace stepfuse::runtime {

namespace {

/// Each once, in order of first use.
std::vector<ShapeKernel> kernels_of(const PreparedGroup& group, const CpuTarget& target) {
  std::vector<ShapeKernel> kernels;
  for (const PreparedStep& step : group.steps)
    for (const PreparedPhase& phase : step.phases) {
      const codegen::KernelSpec& spec = phase.lowered.spec;
      const std::string hash = Key::of(EntryKind::Kernel, cpu_kernel_fields(spec, target)).hash.hex();
      if (std::none_of(kernels.begin(), kernels.end(), [&](const ShapeKernel& k) { return k.hash == hash; }))
        kernels.push_back({spec.name, hash});
    }
  return kernels;
}

std::vector<ShapeLaunch> launches_of(const PreparedGroup& group, int64_t elements) {
  std::vector<ShapeLaunch> launches;
  for (size_t s = 0; s < group.steps.size(); ++s) {
    const PreparedStep& step = group.steps[s];
    ShapeLaunch launch{step.kind, group.plan->steps[s].role, {}, nullptr, {}};
    for (const PreparedPhase& phase : step.phases) launch.dims.push_back(codegen::phase_dims(phase.lowered, elements));
    if (step.kind == compiler::StepKind::Product) {
      launch.product = &step.product;
      launch.by = step.gemm->implementation();
    } else if (step.kind != compiler::StepKind::Fused) {
      launch.dims.push_back(move_dims(step.move, elements));
    }
    launches.push_back(std::move(launch));
  }
  return launches;
}

/// Whether a layer's entry says the same but for who computes the products, which a bundle leaves open.
bool same_but_products(const Entry& found, const PreparedGroup& group, const GroupShape& shape, const Key& key,
                       const std::vector<ShapeKernel>& kernels, std::vector<ShapeLaunch> launches) {
  for (ShapeLaunch& launch : launches) launch.by.clear();
  return found.payload == shape_entry(key, *group.plan, shape, kernels, launches).payload;
}

}  // namespace

void record_shape_entries(const compiler::StepPlan& plan, const std::vector<compiler::PlannedParameter>& parameters,
                          const CpuTarget& target, const std::vector<PreparedGroup>& groups, const Context& context) {
  Store& store = context.kernels().store();
  if (store.options().mode == CacheMode::Off) return;
  const KeyFields fields{{"triple", target.triple}, {"features", target.llvm_features}};
  for (const PreparedGroup& group : groups) {
    const std::vector<ShapeKernel> kernels = kernels_of(group, target);
    for (const GroupShape& shape : shapes_of(*group.plan, parameters)) {
      const std::vector<ShapeLaunch> launches = launches_of(group, compiler::element_count(shape.shape));
      const Key key = Key::of(EntryKind::Shape, shape_fields(plan, *group.plan, shape.shape, fields));
      Entry entry = shape_entry(key, *group.plan, shape, kernels, launches);
      const Store::Lookup found = store.find(key, context.log());
      const bool known =
          found.entry && (found.entry->payload == entry.payload ||
                          (found.from_layer && same_but_products(*found.entry, group, shape, key, kernels, launches)));
      if (known) {
        ++store.counters().shape_hits;
        continue;
      }
      stamp_created(entry);
      store.publish(key, entry, found.entry.has_value() || found.occupied, context.log());
    }
  }
}

}  // namespace stepfuse::runtime
