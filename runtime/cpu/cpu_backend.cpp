// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu_backend.h"

#include "codegen/lower.h"
#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/jit.h"

namespace stepfuse::runtime {

std::vector<CpuTargetInfo> cpu_targets() {
  std::vector<CpuTargetInfo> targets{{"cpu", "this host, with every feature it has"},
                                     {"x86-64-v3", "AVX2, FMA and F16C: most x86 machines since 2013"},
                                     {"x86-64-v4", "AVX-512 F, BW, CD, DQ and VL"}};
  for (CpuTargetInfo& target : targets) target.runs_here = check_cpu_target_runs_here(target.name).has_value();
  return targets;
}

Outcome check_cpu_target(const std::string& target) {
  return cpu_target(target).map([](const CpuTarget&) {});
}

Result<compiler::TargetTraits> cpu_target_traits(const std::string& target) {
  STEPFUSE_TRY(check_cpu_target(target));
  const GemmProviders& providers = GemmProviders::get();
  const GemmProvider* f32 = providers.library(ir::DType::F32);
  compiler::TargetTraits traits;
  traits.name = target;
  // The psABI levels have no matrix units; only this very host may.
  traits.bf16_products = target == "cpu" && providers.library(ir::DType::BF16) != nullptr;
  traits.symmetric_products = f32 != nullptr && f32->name() == "openblas";
  traits.divides_in_cache = true;
  return traits;
}

Outcome check_cpu_target_runs_here(const std::string& target) {
  STEPFUSE_ASSIGN(const CpuTarget features, cpu_target(target));
  return check_runs_here(features);
}

std::vector<CpuLibrary> cpu_libraries() {
  std::vector<CpuLibrary> libraries;
  for (const ProviderReport& report : GemmProviders::get().reports())
    libraries.push_back({std::string(report.name), report.usable, report.why});
  return libraries;
}

compiler::BackendNotes unusable_cpu_libraries() {
  compiler::BackendNotes notes;
  for (const CpuLibrary& library : cpu_libraries())
    if (!library.usable) notes.push_back({"gemm_provider", library.name, false, library.why, {}, {}});
  return notes;
}

Result<std::string> cpu_kernel_text(std::span<const codegen::KernelSpec> kernels, const std::string& target,
                                    KernelText kind, std::string_view plugin_dir) {
  STEPFUSE_ASSIGN(const CpuTarget features, cpu_target(target));
  STEPFUSE_ASSIGN(const CpuCompiler* compiler, cpu_compiler(plugin_dir));
  const bool llvm = kind == KernelText::LlvmIr;
  const std::string_view comment = llvm ? ";" : "#";
  std::string text = fmt::format("{} {}, target {}\n{} {}\n", comment, compiler->version(), features.name, comment,
                                 features.llvm_features);
  for (const codegen::KernelSpec& spec : kernels) {
    STEPFUSE_ASSIGN(const CompiledKernel kernel, compiler->compile({&spec, features, llvm, !llvm}));
    text += fmt::format("\n{} kernel {}\n{}", comment, spec.name, llvm ? kernel.llvm_ir : kernel.assembly);
  }
  return text;
}

Result<KernelMakers> cpu_plan_kernels(const compiler::StepPlan& plan, const Context& context) {
  STEPFUSE_ASSIGN(const CpuTarget target, cpu_target(plan.target.name));
  KernelMakers makers;
  for (codegen::KernelSpec& spec : codegen::distinct_kernels(plan))
    makers.push_back(cpu_kernel_maker(context, std::move(spec), target));
  return makers;
}

Result<KeyFields> cpu_target_fields(const std::string& target) {
  STEPFUSE_ASSIGN(const CpuTarget features, cpu_target(target));
  return KeyFields{{"triple", features.triple}, {"features", features.llvm_features}};
}

}  // namespace stepfuse::runtime
