// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/run_fused.h"

#include "runtime/cpu/reduce_finish.h"

#include <algorithm>
#include <array>

namespace stepfuse::runtime {

using codegen::KernelCall;
using codegen::Scheme;
using compiler::GroupPlan;

namespace {

constexpr int64_t kLinearGrain = 16 * codegen::kChunk;  // 256 KiB of f32 per stream: long enough to amortise a task
constexpr int64_t kRowGrainElements = 16 * codegen::kChunk;
constexpr int64_t kColumnGrain = 64;

struct Task {
  int64_t unit, begin, end;
};

Task task_of(const PhaseTasks& tasks, int64_t index) {
  const int64_t begin = index % tasks.per_unit * tasks.grain;
  return {index / tasks.per_unit, begin, std::min(begin + tasks.grain, tasks.extent)};
}

/// Binds the member's pointers and calls the kernel for one task.
void run_task(const GroupPlan& group, const PreparedPhase& phase, const MemberMemory& member, const Task& task) {
  std::array<void*, codegen::kMaxKernelArgs> args;
  const auto& accesses = phase.lowered.args;
  for (size_t k = 0; k < accesses.size(); ++k)
    args[k] = access_address(group, member, accesses[k], phase.lowered.spec.args[k].dtype);
  std::array<double*, codegen::kMaxKernelReductions> partials;
  const codegen::ReductionLayout layout = codegen::reduction_layout(phase.lowered, member.elements);
  for (size_t r = 0; r < phase.lowered.reductions.size(); ++r)
    partials[r] = member.partials + static_cast<int64_t>(r) * layout.results * layout.chunks;
  const auto dims = codegen::phase_dims(phase.lowered, member.elements);
  const KernelCall call{args.data(),
                        phase.strides.empty() ? nullptr : phase.strides.data(),
                        {dims[0], dims[1], dims[2]},
                        member.scalars + phase.lowered.first_scalar,
                        partials.data()};
  phase.function(&call, task.unit, task.begin, task.end);
}

void finish_phase(const GroupPlan& group, const PreparedPhase& phase, const MemberMemory& member) {
  const codegen::ReductionLayout layout = codegen::reduction_layout(phase.lowered, member.elements);
  for (size_t r = 0; r < phase.lowered.reductions.size(); ++r) {
    const codegen::ReductionResult& reduction = phase.lowered.reductions[r];
    double* partials = member.partials + static_cast<int64_t>(r) * layout.results * layout.chunks;
    std::byte* result = access_address(group, member, reduction.to, reduction.dtype);
    for (int64_t i = 0; i < layout.results; ++i)
      store_element(result, reduction.dtype, i,
                    finish_reduction(reduction.op, reduction.math, partials + i * layout.chunks, layout.chunks));
  }
}

struct FusedRun {
  const GroupPlan& group;
  const PreparedStep& step;
  std::span<const MemberMemory> members;
  std::span<int64_t> first_task;  // of each member, in the current phase
  size_t phase;
};

void run_member(const FusedRun& run, const MemberMemory& member) {
  for (const PreparedPhase& phase : run.step.phases) {
    const PhaseTasks tasks = phase_tasks(phase, member.elements);
    for (int64_t i = 0; i < tasks.count(); ++i) run_task(run.group, phase, member, task_of(tasks, i));
    finish_phase(run.group, phase, member);
  }
}

void run_shared_task(const FusedRun& run, int64_t index) {
  const auto next = std::upper_bound(run.first_task.begin(),
                                     run.first_task.begin() + static_cast<int64_t>(run.members.size()) + 1, index);
  const auto m = static_cast<size_t>(next - run.first_task.begin()) - 1;
  const PreparedPhase& phase = run.step.phases[run.phase];
  const PhaseTasks tasks = phase_tasks(phase, run.members[m].elements);
  run_task(run.group, phase, run.members[m], task_of(tasks, index - run.first_task[m]));
}

int64_t count_tasks(FusedRun& run) {
  int64_t total = 0;
  for (size_t m = 0; m < run.members.size(); ++m) {
    run.first_task[m] = total;
    total += phase_tasks(run.step.phases[run.phase], run.members[m].elements).count();
  }
  run.first_task[run.members.size()] = total;
  return total;
}

}  // namespace

PhaseTasks phase_tasks(const PreparedPhase& phase, int64_t elements) {
  const auto [d0, d1, d2] = codegen::phase_dims(phase.lowered, elements);
  PhaseTasks tasks{0, d0, d1 * d2, kLinearGrain};
  if (phase.lowered.spec.scheme == Scheme::Rows)
    tasks = {0, 1, d0 * d1, std::max<int64_t>(1, kRowGrainElements / std::max<int64_t>(1, d2))};
  if (phase.lowered.spec.scheme == Scheme::Cols) tasks = {0, d0, d2, kColumnGrain};
  tasks.per_unit = (tasks.extent + tasks.grain - 1) / tasks.grain;
  return tasks;
}

void run_fused(const GroupPlan& group, const PreparedStep& step, std::span<const MemberMemory> members,
               ThreadPool& pool, std::span<int64_t> first_task) {
  FusedRun run{group, step, members, first_task, 0};
  if (step.phases.size() > 1 && static_cast<int>(members.size()) >= pool.threads()) {
    pool.run(
        static_cast<int64_t>(members.size()),
        [](void* data, int64_t index, int) {
          const auto& r = *static_cast<const FusedRun*>(data);
          run_member(r, r.members[static_cast<size_t>(index)]);
        },
        &run);
    return;
  }
  for (run.phase = 0; run.phase < step.phases.size(); ++run.phase) {
    const int64_t total = count_tasks(run);
    pool.run(
        total, [](void* data, int64_t index, int) { run_shared_task(*static_cast<const FusedRun*>(data), index); },
        &run);
    if (!step.phases[run.phase].lowered.reductions.empty())
      for (const MemberMemory& member : members) finish_phase(group, step.phases[run.phase], member);
  }
}

}  // namespace stepfuse::runtime
