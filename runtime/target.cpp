// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/target.h"

#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/gemm.h"

namespace stepfuse::runtime {

Result<compiler::TargetTraits> target_traits(const std::string& target) {
  if (target == "interp") return compiler::TargetTraits{.name = target, .bf16_products = true};
  if (target == "cuda" || target.starts_with("sm_") || target.starts_with("compute_"))
    return with_hint(fail(StatusCode::Unsupported, "target '{}' is not yet in this version", target),
                     "the targets are cpu, x86-64-v3, x86-64-v4, interp");
  STEPFUSE_TRY(cpu_target(target).map([](const CpuTarget&) {}));
  const GemmProviders& providers = GemmProviders::get();
  const GemmProvider* f32 = providers.f32();
  compiler::TargetTraits traits;
  traits.name = target;
  // The psABI levels have no matrix units; only this very host may.
  traits.bf16_products = target == "cpu" && providers.bf16() != nullptr;
  traits.symmetric_products = f32 != nullptr && f32->name() == "openblas";
  traits.divides_in_cache = true;
  return traits;
}

}  // namespace stepfuse::runtime
