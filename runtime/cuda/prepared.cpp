// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/prepared.h"

#include "runtime/cuda/plan_kernels.h"
#include "runtime/parallel.h"

#include <map>
#include <mutex>

namespace stepfuse::runtime {

using codegen::LoweredGroup;
using codegen::LoweredPhase;
using codegen::LoweredStep;

namespace {

/// Kernels to find, each once, and where their functions go.
class Jobs {
 public:
  explicit Jobs(const CudaArch& arch) : arch_(arch) {}

  void add(CudaKernelRequest request, CudaFunction& user) {
    const std::string key = request.identity + fmt::format("{}", fmt::join(request.options, " "));
    const auto [it, is_new] = index_.emplace(key, jobs_.size());
    if (is_new) jobs_.push_back({std::move(request), {}, KernelOrigin::Memory});
    jobs_[it->second].users.push_back(&user);
  }
  void add(CudaPhase& phase) {
    add(fused_kernel_request(phase.lowered.spec, {.aligned = true}, arch_), phase.aligned);
    add(fused_kernel_request(phase.lowered.spec, {.aligned = false}, arch_), phase.generic);
  }

  Outcome run(const CudaPrepareContext& context) {
    std::mutex mutex;
    int64_t done = 0;
    const auto count = static_cast<int64_t>(jobs_.size());
    const auto find_one = [&](int64_t index) -> Outcome {
      Job& job = jobs_[static_cast<size_t>(index)];
      STEPFUSE_TRY(run_one(job, context));
      const std::scoped_lock lock(mutex);
      if (context.progress) context.progress(++done, count, job.request.name);
      return {};
    };
    STEPFUSE_TRY(parallel_for(count, context.context.settings().number("jobs"), find_one));
    for (const Job& job : jobs_)
      ++(job.origin == KernelOrigin::Compiled ? context.report.compiled_kernels : context.report.reused_kernels);
    return {};
  }

 private:
  struct Job {
    CudaKernelRequest request;
    std::vector<CudaFunction*> users;
    KernelOrigin origin;
  };

  static Outcome run_one(Job& job, const CudaPrepareContext& context) {
    STEPFUSE_ASSIGN(const CurrentContext scope, CurrentContext::enter(context.device.context()));
    STEPFUSE_ASSIGN(const FoundCudaKernel found,
                    find_cuda_kernel(context.context.kernels(), context.context, job.request));
    STEPFUSE_ASSIGN(const cuda::CUfunction function, found.kernel->function(context.device.driver()));
    job.origin = found.origin;
    for (CudaFunction* user : job.users) *user = {found.kernel, function};
    return {};
  }

  CudaArch arch_;
  std::vector<Job> jobs_;
  std::map<std::string, size_t> index_;
};

CudaGroup take_over(LoweredGroup lowered) {
  CudaGroup group;
  group.plan = lowered.plan;
  for (LoweredStep& step : lowered.steps) {
    CudaStep& out = group.steps.emplace_back();
    out.kind = step.kind;
    for (LoweredPhase& phase : step.phases) out.phases.push_back({std::move(phase), {}, {}});
    out.product = std::move(step.product);
    out.move = std::move(step.move);
  }
  group.scalars = std::move(lowered.scalars);
  group.hyper_index = std::move(lowered.hyper_index);
  group.fresh_index = std::move(lowered.fresh_index);
  return group;
}

}  // namespace

Result<CudaPlan> prepare_cuda_plan(const CudaPrepareContext& context) {
  CudaPlan plan;
  if (context.plan.groups.empty()) return plan;
  STEPFUSE_ASSIGN(const CudaArch arch, arch_for(context.device.context().device().capability, context.context));
  for (const compiler::GroupPlan& group : context.plan.groups)
    plan.groups.push_back(take_over(codegen::lower_group(group, context.plan.mode)));
  Jobs jobs(arch);
  jobs.add(prologue_request(arch), plan.prologue);
  for (CudaGroup& group : plan.groups)
    for (CudaStep& step : group.steps) {
      for (CudaPhase& phase : step.phases) jobs.add(phase);
      if (step.kind != compiler::StepKind::Fused && step.kind != compiler::StepKind::Product)
        jobs.add(move_kernel_request(move_of(step.kind, step.move), arch), step.mover);
    }
  STEPFUSE_TRY(jobs.run(context));
  return plan;
}

}  // namespace stepfuse::runtime
