// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cpu/jit.h"
#include "runtime/cpu/object_loader.h"
#include "runtime/kernel_cache.h"

#include <optional>
#include <string>
#include <string_view>

namespace stepfuse::runtime {

/// The kernel of this text for this target, from memory, disk or the compiler plugin.
struct FoundCpuKernel {
  std::shared_ptr<const LoadedKernel> kernel;
  KernelOrigin origin = KernelOrigin::Memory;
};
Result<FoundCpuKernel> find_cpu_kernel(KernelCache& cache, const Context& context, const codegen::KernelSpec& spec,
                                       const CpuTarget& target);

/// What names a kernel: this library, target features, mode, kernel text.
KeyFields cpu_kernel_fields(const codegen::KernelSpec& spec, const CpuTarget& target);
/// The same as one text.
std::string cpu_kernel_key(const codegen::KernelSpec& spec, const CpuTarget& target);

/// Why a kernel entry with this metadata is not what the compiler of this process would make; see other_compiler().
std::optional<std::string> compiled_otherwise(const std::string& metadata, std::string_view plugin_dir);

/// For a plan's kernels; the context outlives it.
std::unique_ptr<KernelMaker> cpu_kernel_maker(const Context& context, codegen::KernelSpec spec, CpuTarget target);

/// Why a whole entry, a shape or a CPU's kernel, cannot be used; empty if it can. Maps a kernel's code, without running
/// it.
std::string cpu_entry_problem(const Entry& entry);

}  // namespace stepfuse::runtime
