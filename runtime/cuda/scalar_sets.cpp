// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/scalar_sets.h"

#include <algorithm>
#include <bit>

namespace stepfuse::runtime {

namespace {

/// Bit for bit: a NaN equals itself, and -0 is not +0.
bool same(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

bool takes_scalars(const CudaGroup& group) {
  return std::any_of(group.steps.begin(), group.steps.end(), [](const CudaStep& step) {
    return step.kind == compiler::StepKind::Product && (step.product.alpha.kind == codegen::Factor::Kind::Scalar ||
                                                        step.product.beta.kind == codegen::Factor::Kind::Scalar);
  });
}

bool knows_steps(const ir::ScalarProgram& program) {
  using Source = ir::ScalarProgram::Source;
  return std::any_of(program.lines().begin(), program.lines().end(), [](const ir::ScalarProgram::Line& line) {
    return line.source == Source::Step || line.source == Source::Fresh;
  });
}

}  // namespace

ScalarSets::ScalarSets(const std::vector<CudaGroup>& groups, size_t parameters)
    : groups_(groups), group_of_(parameters, kNone), set_of_(parameters, 0), class_of_(parameters, 0) {
  for (const CudaGroup& group : groups) {
    const bool any = takes_scalars(group);
    factors_.push_back({any, any && knows_steps(*group.scalars)});
  }
  for (uint32_t g = 0; g < groups.size(); ++g)
    for (const uint32_t member : groups[g].plan->members) group_of_[member] = g;
}

bool ScalarSets::equals(const Set& set, const MemberBinding& binding) const {
  for (size_t k = 0; k < groups_[set.group].hyper_index.size(); ++k)
    if (!same(values_[set.first + k], value_of(binding, set.group, k))) return false;
  return true;
}

bool ScalarSets::same_class(uint32_t a, uint32_t b, std::span<const MemberBinding> bindings) const {
  const Factors& factors = factors_[group_of_[a]];
  if (!factors.any) return true;
  if (set_of_[a] != set_of_[b]) return false;
  return !factors.steps || (same(bindings[a].step, bindings[b].step) && bindings[a].fresh == bindings[b].fresh);
}

void ScalarSets::form(std::span<const MemberBinding> bindings) {
  sets_.clear();
  values_.clear();
  // The sets of each group, and its classes, are few: they are looked through.
  std::vector<std::vector<uint32_t>> sets_of(groups_.size()), leaders_of(groups_.size());
  for (uint32_t p = 0; p < group_of_.size(); ++p) {
    const uint32_t g = group_of_[p];
    if (g == kNone) continue;
    auto& sets = sets_of[g];
    auto known = std::find_if(sets.begin(), sets.end(), [&](uint32_t s) { return equals(sets_[s], bindings[p]); });
    if (known == sets.end()) {
      known = sets.insert(sets.end(), static_cast<uint32_t>(sets_.size()));
      sets_.push_back({g, static_cast<uint32_t>(values_.size()), p});
      for (size_t k = 0; k < groups_[g].hyper_index.size(); ++k) values_.push_back(value_of(bindings[p], g, k));
    }
    set_of_[p] = *known;
    auto& leaders = leaders_of[g];
    auto leader = std::find_if(leaders.begin(), leaders.end(), [&](uint32_t l) { return same_class(l, p, bindings); });
    if (leader == leaders.end()) leader = leaders.insert(leaders.end(), p);
    class_of_[p] = *leader;
  }
}

ScalarSets::Change ScalarSets::update(std::span<const MemberBinding> bindings) {
  Change change = Change::None;
  for (uint32_t p = 0; p < group_of_.size(); ++p) {
    if (group_of_[p] == kNone) continue;
    const Set& set = sets_[set_of_[p]];
    if (!equals(set, bindings[p])) {
      if (set.leader != p) return Change::Sets;
      for (size_t k = 0; k < groups_[set.group].hyper_index.size(); ++k)
        values_[set.first + k] = value_of(bindings[p], set.group, k);
      change = Change::Values;
    }
    if (bindings[p].active && !same_class(class_of_[p], p, bindings)) return Change::Sets;
  }
  return change;
}

codegen::CudaParameterState parameter_state(const CudaGroup& group, const MemberBinding& binding) {
  codegen::CudaParameterState state;
  state.steps = static_cast<int64_t>(binding.step) - 1;
  for (size_t k = 0; k < group.fresh_index.size(); ++k)
    if (binding.fresh[group.fresh_index[k]] != 0) state.fresh |= 1U << k;
  return state;
}

}  // namespace stepfuse::runtime
