// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/prepared.h"

#include "compiler/passes/passes.h"
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/prepare_product.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>

namespace stepfuse::runtime {

using codegen::LoweredPhase;
using compiler::GroupPlan;

namespace {

PreparedPhase prepare_phase(LoweredPhase lowered) {
  PreparedPhase phase;
  if (!lowered.spec.contiguous)
    for (const compiler::Access& access : lowered.args)
      phase.strides.insert(phase.strides.end(), access.strides.begin(), access.strides.end());
  phase.lowered = std::move(lowered);
  return phase;
}

Result<PreparedGroup> prepare_group(const GroupPlan& plan, const PrepareContext& context) {
  codegen::LoweredGroup lowered = codegen::lower_group(plan, context.plan.mode);
  PreparedGroup out;
  out.plan = &plan;
  for (codegen::LoweredStep& step : lowered.steps) {
    PreparedStep prepared{step.kind, {}, std::move(step.product), nullptr, std::move(step.move)};
    for (LoweredPhase& phase : step.phases) prepared.phases.push_back(prepare_phase(std::move(phase)));
    if (step.kind == compiler::StepKind::Product) {
      const std::string label = compiler::value_label(plan.graph, step.node);
      STEPFUSE_ASSIGN(prepared.gemm, choose_gemm(prepared.product.shape, label, context.plan, context.notes));
    }
    out.steps.push_back(std::move(prepared));
  }
  out.scalars = std::move(lowered.scalars);
  out.hyper_index = std::move(lowered.hyper_index);
  out.fresh_index = std::move(lowered.fresh_index);
  return out;
}

/// The distinct kernels of all phases, and the phases that use each.
struct CompileJob {
  std::vector<PreparedPhase*> users;
  Result<FoundCpuKernel> found;
};

std::vector<CompileJob> collect_jobs(std::vector<PreparedGroup>& groups, const PrepareContext& context) {
  // Kernels that do the same share code under any name; an edited one replaces kernels of its own name only.
  const bool by_name = !context.context.settings().text("override_dir").empty();
  std::map<std::string, CompileJob> by_key;
  for (PreparedGroup& group : groups)
    for (PreparedStep& step : group.steps)
      for (PreparedPhase& phase : step.phases)
        by_key[cpu_kernel_key(phase.lowered.spec, context.target) + (by_name ? phase.lowered.spec.name : "")]
            .users.push_back(&phase);
  std::vector<CompileJob> jobs;
  for (auto& [key, job] : by_key) jobs.push_back(std::move(job));
  return jobs;
}

Outcome compile_all(std::vector<PreparedGroup>& groups, const PrepareContext& context) {
  struct Work {
    std::vector<CompileJob> jobs;
    const PrepareContext& context;
    std::mutex mutex;
    int64_t done = 0;
    std::atomic<bool> failed{false};   // the rest need not be tried
    std::exception_ptr out_of_memory;  // thrown on, where the pool is behind us

    void tell(const CompileJob& job) {
      if (!context.progress) return;
      const std::scoped_lock lock(mutex);
      context.progress(++done, static_cast<int64_t>(jobs.size()), job.users.front()->lowered.spec.name);
    }
  } work{collect_jobs(groups, context), context, {}, 0, false, {}};
  context.pool.run(
      static_cast<int64_t>(work.jobs.size()),
      [](void* data, int64_t index, int) {
        auto& w = *static_cast<Work*>(data);
        CompileJob& job = w.jobs[static_cast<size_t>(index)];
        if (w.failed) return;
        try {
          job.found = find_cpu_kernel(w.context.context.kernels(), w.context.context, job.users.front()->lowered.spec,
                                      w.context.target);
          if (job.found) w.tell(job);
        } catch (const std::bad_alloc&) {
          const std::scoped_lock lock(w.mutex);
          w.out_of_memory = std::current_exception();
        } catch (const std::exception& error) {
          // Nothing may leave a task of the pool.
          job.found =
              fail(StatusCode::Internal, "compiling {}: {}", job.users.front()->lowered.spec.name, error.what());
        }
        if (!job.found || job.found->kernel == nullptr) w.failed = true;
      },
      &work);
  if (work.out_of_memory) std::rethrow_exception(work.out_of_memory);
  for (const CompileJob& job : work.jobs)
    if (!job.found) return fail(job.found.error());
  for (CompileJob& job : work.jobs) {
    context.compiled += job.found->origin == KernelOrigin::Compiled ? 1 : 0;
    for (PreparedPhase* phase : job.users) {
      phase->kernel = job.found->kernel;
      phase->function = phase->kernel->function();
    }
  }
  return {};
}

}  // namespace

Result<std::vector<PreparedGroup>> prepare_groups(const PrepareContext& context) {
  std::vector<PreparedGroup> groups;
  for (const GroupPlan& plan : context.plan.groups) {
    STEPFUSE_ASSIGN(PreparedGroup group, prepare_group(plan, context));
    groups.push_back(std::move(group));
  }
  STEPFUSE_TRY(compile_all(groups, context));
  return groups;
}

}  // namespace stepfuse::runtime
