// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// In the place of runtime/cpu in a build with -DSTEPFUSE_CPU=OFF.
#include "runtime/cpu_backend.h"
#include "runtime/executor.h"

namespace stepfuse::runtime {

namespace {

tl::unexpected<Status> missing() {
  return with_hint(fail(StatusCode::Environment, "this build has no CPU backend; the targets are interp"),
                   "configure with -DSTEPFUSE_CPU=ON, or choose target interp");
}

}  // namespace

std::vector<CpuTargetInfo> cpu_targets() { return {}; }
Outcome check_cpu_target(const std::string&) { return missing(); }
Result<compiler::TargetTraits> cpu_target_traits(const std::string&) { return missing(); }
Outcome check_cpu_target_runs_here(const std::string&) { return missing(); }
std::vector<CpuLibrary> cpu_libraries() { return {}; }
compiler::BackendNotes unusable_cpu_libraries() { return {}; }

Result<std::string> cpu_kernel_text(std::span<const codegen::KernelSpec>, const std::string&, KernelText,
                                    std::string_view) {
  return missing();
}

Result<KernelMakers> cpu_plan_kernels(const compiler::StepPlan&, const Context&) { return missing(); }
Result<KeyFields> cpu_target_fields(const std::string&) { return missing(); }

Result<std::unique_ptr<Executor>> make_cpu_executor(const compiler::StepPlan&,
                                                    const std::vector<compiler::PlannedParameter>&, const std::string&,
                                                    int, const Context&, const Progress&) {
  return missing();
}

}  // namespace stepfuse::runtime
