// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the layers outside of runtime/cpu ask of the CPU backend, besides make_cpu_executor(). A build with
/// -DSTEPFUSE_CPU=OFF has these functions too (runtime/no_cpu.cpp); there each that can fail says that the backend is
/// missing and how to get it. `target` is a name: "cpu", "x86-64-v3", "x86-64-v4".

#include "codegen/kernel.h"
#include "compiler/explain.h"
#include "compiler/pass.h"
#include "compiler/plan.h"
#include "ir/support/status.h"
#include "runtime/kernel_cache.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

struct CpuTargetInfo {
  std::string name;
  std::string summary;
  bool runs_here = false;
};
/// Empty in a build without the backend.
std::vector<CpuTargetInfo> cpu_targets();

/// Whether this is the name of a target; whether this host can run it is not asked.
Outcome check_cpu_target(const std::string& target);
/// What the compiler may assume of a target. Other names than those of cpu_targets() are refused.
Result<compiler::TargetTraits> cpu_target_traits(const std::string& target);
/// Whether plans for the target can run on this host; names the missing features otherwise.
Outcome check_cpu_target_runs_here(const std::string& target);

/// A library or kernel for products, as its self-test found it on this machine.
struct CpuLibrary {
  std::string name;
  bool usable = false;
  std::string why;  // when it is not
};
std::vector<CpuLibrary> cpu_libraries();
/// The ones that are not usable.
compiler::BackendNotes unusable_cpu_libraries();

enum class KernelText : uint8_t { LlvmIr, Assembly };
/// Each kernel compiled for the target, one after the other, with the compiler's version on top; `plugin_dir` as for
/// cpu_compiler().
Result<std::string> cpu_kernel_text(std::span<const codegen::KernelSpec> kernels, const std::string& target,
                                    KernelText kind, std::string_view plugin_dir);

/// Every kernel of a plan for a CPU; see plan_kernels().
Result<KernelMakers> cpu_plan_kernels(const compiler::StepPlan& plan, const Context& context);
/// The target's own part of a key.
Result<KeyFields> cpu_target_fields(const std::string& target);

}  // namespace stepfuse::runtime
