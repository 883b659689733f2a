// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cpu/memory_view.h"
#include "runtime/cpu/prepared.h"

#include <span>
#include <vector>

namespace stepfuse::runtime {

/// How one phase over one member is cut into tasks: by shape alone, never by the number of threads.
struct PhaseTasks {
  int64_t per_unit;  // tasks of one unit
  int64_t units;
  int64_t extent;  // elements, rows or columns of one unit
  int64_t grain;   // of one task
  int64_t count() const { return per_unit * units; }
};
PhaseTasks phase_tasks(const PreparedPhase& phase, int64_t elements);

/// Runs a fused step over the members. With at least as many members as threads, each task runs all phases of one
/// member while it is in cache; otherwise each phase is shared by all threads. Both give the same bits. `first_task`
/// has room for members.size() + 1 entries.
void run_fused(const compiler::GroupPlan& group, const PreparedStep& step, std::span<const MemberMemory> members,
               ThreadPool& pool, std::span<int64_t> first_task);

}  // namespace stepfuse::runtime
