// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// In the place of runtime/cuda in a build with -DSTEPFUSE_CUDA=OFF.
#include "runtime/cuda_backend.h"

namespace stepfuse::runtime {

namespace {

tl::unexpected<Status> missing() {
  return with_hint(fail(StatusCode::Environment, "this build has no CUDA backend"),
                   "configure with -DSTEPFUSE_CUDA=ON, or choose target cpu or interp");
}

}  // namespace

Outcome check_cuda_target(const std::string&) { return missing(); }
Result<compiler::TargetTraits> cuda_target_traits(const std::string&, const Settings&) { return missing(); }
std::vector<CudaTargetInfo> cuda_targets(const Settings&) { return {}; }
std::vector<CudaLibrary> cuda_libraries(const Settings&) { return {}; }
Result<std::string> cuda_self_test(const Settings&) { return missing(); }

Result<std::string> cuda_kernel_text(std::span<const codegen::KernelSpec>, const std::string&, CudaText,
                                     const Settings&) {
  return missing();
}

Result<std::unique_ptr<Device>> open_cuda_device(int, const Context&) { return missing(); }

Result<std::unique_ptr<Executor>> make_cuda_executor(const compiler::StepPlan&,
                                                     const std::vector<compiler::PlannedParameter>&, Device&,
                                                     const Context&, const Progress&) {
  return missing();
}
Result<std::vector<NamedText>> cuda_kernel_files(const compiler::StepPlan&, const Context&, CudaText) {
  return missing();
}
Outcome check_cuda_overrides(const Context&, const compiler::StepPlan&) { return missing(); }
Result<KernelMakers> cuda_plan_kernels(const compiler::StepPlan&, const Context&) { return missing(); }
Result<KeyFields> cuda_target_fields(const std::string&, const Context&) { return missing(); }
std::optional<std::string> cuda_entry_made_otherwise(const std::string&) { return std::nullopt; }
std::string cuda_entry_problem(const Entry&) { return {}; }

}  // namespace stepfuse::runtime
