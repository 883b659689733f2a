// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the layers outside of runtime/cuda ask of the CUDA backend. A build with -DSTEPFUSE_CUDA=OFF has these
/// functions too (runtime/no_cuda.cpp); there each that can fail says that the backend is missing and how to get it.
/// `target` is a name: "cuda" (the present device), "sm_90", "sm_90a", "compute_90".

#include "codegen/kernel.h"
#include "compiler/pass.h"
#include "compiler/plan.h"
#include "ir/support/status.h"
#include "runtime/config/settings.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/kernel_cache.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// Whether the name is meant for this backend; whether it is well formed is check_cuda_target()'s to say.
inline bool is_cuda_target(std::string_view target) {
  return target == "cuda" || target.starts_with("sm_") || target.starts_with("compute_");
}

/// Whether this is the name of a target; what NVRTC can compile for, and which device there is, is not asked.
Outcome check_cuda_target(const std::string& target);

/// What the compiler may assume of a target. Only "cuda" asks the driver, and fails where there is no device.
Result<compiler::TargetTraits> cuda_target_traits(const std::string& target, const Settings& settings);

struct CudaTargetInfo {
  std::string name;
  std::string summary;
  bool runs_here = false;
};
/// "cuda", and what the NVRTC of this machine compiles for, if there is one. Empty in a build without the backend.
std::vector<CudaTargetInfo> cuda_targets(const Settings& settings);

/// A library as doctor shows it: where it was found and by which rule, or what was tried.
struct CudaLibrary {
  std::string name;  // "NVRTC", "cuBLASLt", "driver"
  bool found = false;
  bool demanded = false;  // an option names it
  std::string path;       // of the file that the loader mapped
  std::string rule;     // "option nvrtc", "already loaded", "dynamic loader", "Python wheel", "CUDA_HOME", "CUDA_PATH",
                        // "default folder"
  std::string version;  // "13.0"
  std::string why;      // when it was not found: the places tried
  std::string hint;     // and how to mend it
};
/// All three, NVRTC first; they are opened. Empty in a build without the backend.
std::vector<CudaLibrary> cuda_libraries(const Settings& settings);

/// NVRTC compiles a kernel for the newest architecture that it knows. The architecture's name.
Result<std::string> cuda_self_test(const Settings& settings);

/// The device that steps of target "cuda" run on.
Result<std::unique_ptr<Device>> open_cuda_device(int ordinal, const Context& context);
/// `device` is of open_cuda_device(); everything given outlives the executor.
Result<std::unique_ptr<Executor>> make_cuda_executor(const compiler::StepPlan& plan,
                                                     const std::vector<compiler::PlannedParameter>& parameters,
                                                     Device& device, const Context& context, const Progress& progress);

enum class CudaText : uint8_t { Source, Ptx, Sass };
/// Each kernel's text for the target, one after the other, with the compiler's version on top and each kernel's
/// registers, spills, shared memory and loads by width (not for Source, which needs no toolkit).
Result<std::string> cuda_kernel_text(std::span<const codegen::KernelSpec> kernels, const std::string& target,
                                     CudaText kind, const Settings& settings);

/// Every kernel of a plan as a file: its name, as override_dir takes it (".ptx" for reading only), and its text.
struct NamedText {
  std::string name;
  std::string text;
};
Result<std::vector<NamedText>> cuda_kernel_files(const compiler::StepPlan& plan, const Context& context, CudaText kind);
/// check_overrides() for a plan of this backend.
Outcome check_cuda_overrides(const Context& context, const compiler::StepPlan& plan);

/// Every kernel of a plan for a device; see plan_kernels().
Result<KernelMakers> cuda_plan_kernels(const compiler::StepPlan& plan, const Context& context);
/// The target's own part of a key. Only "cuda" asks the driver.
Result<KeyFields> cuda_target_fields(const std::string& target, const Context& context);

/// Whether an entry is for a device, by its key.
inline bool is_cuda_entry(const KeyFields& fields) { return !field(fields, "arch").empty(); }
/// Why a kernel entry with this metadata is not what this process would compile.
std::optional<std::string> cuda_entry_made_otherwise(const std::string& metadata);
/// Why an entry of a kernel or product cannot be used; empty if it can, and in a build without the backend.
std::string cuda_entry_problem(const Entry& entry);

}  // namespace stepfuse::runtime
