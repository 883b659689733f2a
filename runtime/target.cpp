// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/target.h"

#include "runtime/cpu_backend.h"
#include "runtime/cuda_backend.h"

namespace stepfuse::runtime {

Outcome check_target(const std::string& target) {
  if (target == "interp") return {};
  return is_cuda_target(target) ? check_cuda_target(target) : check_cpu_target(target);
}

Result<compiler::TargetTraits> target_traits(const std::string& target, const Settings& settings) {
  STEPFUSE_TRY(check_target(target));
  if (target == "interp") return compiler::TargetTraits{.name = target, .bf16_products = true};
  return is_cuda_target(target) ? cuda_target_traits(target, settings) : cpu_target_traits(target);
}

Outcome check_target_steps(const std::string& target) {
  STEPFUSE_TRY(check_target(target));
  if (!is_cuda_target(target)) return {};
  if (target == "cuda") return {};
  return with_hint(fail(StatusCode::InvalidArgument, "target '{}' is one to compile for; no step runs on it", target),
                   "steps run on cpu, x86-64-v3, x86-64-v4, cuda and interp");
}

}  // namespace stepfuse::runtime
