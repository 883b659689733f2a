// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/lower_group.h"
#include "compiler/plan.h"
#include "runtime/cache/entry.h"

#include <array>
#include <span>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// What names the shape entry of one parameter shape in a group: library, `target` (the fields of a backend's), mode,
/// disabled passes, shape, element types, layout, and the naive rule as text. Values of hyperparameters are no part of
/// it.
KeyFields shape_fields(const compiler::StepPlan& plan, const compiler::GroupPlan& group,
                       const std::vector<int64_t>& shape, const KeyFields& target);

/// The distinct parameter shapes of a group, in order of their first member.
struct GroupShape {
  std::vector<int64_t> shape;
  uint32_t first_member = 0;  // into StepPlan's parameters
  int64_t members = 0;
};
std::vector<GroupShape> shapes_of(const compiler::GroupPlan& group,
                                  const std::vector<compiler::PlannedParameter>& parameters);

/// A kernel that a shape uses: its name, and the hash of its entry's key.
struct ShapeKernel {
  std::string name, hash;
  friend bool operator==(const ShapeKernel&, const ShapeKernel&) = default;
};

/// One launch of a shape, with the domain of each phase of a fused step.
struct ShapeLaunch {
  compiler::StepKind kind;
  std::string role;
  std::vector<std::array<int64_t, 3>> dims;
  const codegen::LoweredProduct* product = nullptr;  // of a product
  std::string by;                                    // who computes it; empty: left open
};

/// The domain of a move.
std::array<int64_t, 3> move_dims(const codegen::LoweredMove& move, int64_t elements);

/// The entry: the kernels, the launches, the workspace. Holds no time.
Entry shape_entry(const Key& key, const compiler::GroupPlan& group, const GroupShape& shape,
                  std::span<const ShapeKernel> kernels, std::span<const ShapeLaunch> launches);

/// Writes the time into the metadata.
void stamp_created(Entry& entry);

/// "768x3072"; "scalar" without extents.
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace stepfuse::runtime
