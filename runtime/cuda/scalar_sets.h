// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cuda/emit_prologue.h"
#include "runtime/cuda/prepared.h"
#include "runtime/executor.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace stepfuse::runtime {

/// The hyperparameters of all parameters, each distinct set once, as the prologue gets them; and which parameters have
/// equal scalars, so that one product can serve them.
class ScalarSets {
 public:
  /// By parameter, the group that it belongs to; no group for those that the plan leaves out.
  ScalarSets(const std::vector<CudaGroup>& groups, size_t parameters);

  /// Forms sets of parameters with equal values.
  void form(std::span<const MemberBinding> bindings);
  enum class Change : uint8_t {
    None,
    Values,  // values() differ from before
    Sets     // parameters of one set have different values now: form() anew
  };
  Change update(std::span<const MemberBinding> bindings);

  const std::vector<double>& values() const { return values_; }
  /// The first of a parameter's values.
  uint32_t first_value(uint32_t parameter) const { return sets_[set_of_[parameter]].first; }
  /// Parameters of one group with the same number have equal factors of products.
  uint32_t scalar_class(uint32_t parameter) const { return class_of_[parameter]; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  /// What the factors of a group's products depend on.
  struct Factors {
    bool any = false;    // some come from the scalars at all
    bool steps = false;  // and these know the step, or absent states
  };
  struct Set {
    uint32_t group = 0;
    uint32_t first = 0;   // into values_
    uint32_t leader = 0;  // the first parameter of the set
  };
  double value_of(const MemberBinding& binding, uint32_t group, size_t k) const {
    return binding.hypers[groups_[group].hyper_index[k]];
  }
  bool equals(const Set& set, const MemberBinding& binding) const;
  bool same_class(uint32_t a, uint32_t b, std::span<const MemberBinding> bindings) const;

  const std::vector<CudaGroup>& groups_;
  std::vector<Factors> factors_;  // by group
  std::vector<uint32_t> group_of_;
  std::vector<uint32_t> set_of_, class_of_;  // by parameter
  std::vector<Set> sets_;
  std::vector<double> values_;
};

/// What the device must know of a parameter before its next step.
codegen::CudaParameterState parameter_state(const CudaGroup& group, const MemberBinding& binding);

}  // namespace stepfuse::runtime
