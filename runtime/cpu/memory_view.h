// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"
#include "runtime/executor.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepfuse::runtime {

/// Where one member of a running batch has its memory.
struct MemberMemory {
  const MemberBinding* binding = nullptr;
  std::byte* scratch = nullptr;  // the lanes
  const int64_t* lane_offsets = nullptr;
  double* partials = nullptr;
  const double* scalars = nullptr;  // the group's slots
  int64_t elements = 0;             // of the parameter
};

/// First byte of the slot's memory for this member.
inline std::byte* slot_address(const compiler::GroupPlan& group, const MemberMemory& member, compiler::Slot slot) {
  if (slot.kind == compiler::Slot::Kind::Input) return static_cast<std::byte*>(member.binding->inputs[slot.index]);
  return member.scratch + member.lane_offsets[group.buffers[slot.index].lane];
}

/// First byte of the window.
inline std::byte* access_address(const compiler::GroupPlan& group, const MemberMemory& member,
                                 const compiler::Access& access, ir::DType dtype) {
  return slot_address(group, member, access.slot) + access.offset * ir::dtype_bytes(dtype);
}

}  // namespace stepfuse::runtime
