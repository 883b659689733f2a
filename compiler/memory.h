// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"

namespace stepfuse::compiler {

/// Gives every scratch buffer a lane: memory that buffers share when one is dead before the next is made, or when the
/// op that makes the next reads the last of the old one element by element. Without `reuse` each has its own.
void assign_lanes(GroupPlan& group, bool reuse);

/// Scratch of one member in bytes, each lane rounded up to 64; `elements` counts for symbolic groups only.
int64_t member_bytes(const GroupPlan& group, int64_t elements);

/// Where each lane starts within a member's scratch.
std::vector<int64_t> lane_offsets(const GroupPlan& group, int64_t elements);

}  // namespace stepfuse::compiler
