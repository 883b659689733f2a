// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_cache.h"

namespace stepfuse::runtime {

KernelCache& KernelCache::get() {
  // Never destroyed: threads of the host program may still run kernels while the process exits.
  static auto* cache = new KernelCache;
  return *cache;
}

std::string KernelCache::key(const codegen::KernelSpec& spec, const CpuTarget& target) {
  return fmt::format("stepfuse cpu kernel 1\n{}\n{}\n{}", target.triple, target.llvm_features, codegen::identity(spec));
}

Result<std::shared_ptr<const LoadedKernel>> KernelCache::find_or_compile(const codegen::KernelSpec& spec,
                                                                         const CpuTarget& target, bool* compiled) {
  const std::string name = key(spec, target);
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = kernels_.find(name); it != kernels_.end()) return it->second;
  }
  STEPFUSE_ASSIGN(const CpuCompiler* compiler, cpu_compiler());
  STEPFUSE_ASSIGN(const CompiledKernel object, compiler->compile({&spec, target}));
  STEPFUSE_ASSIGN(std::shared_ptr<const LoadedKernel> loaded, compiler->load(object, spec.name));
  const std::lock_guard lock(mutex_);
  ++compiled_;
  if (compiled != nullptr) *compiled = true;
  return kernels_.emplace(name, std::move(loaded)).first->second;
}

int64_t KernelCache::compiled() const {
  const std::lock_guard lock(mutex_);
  return compiled_;
}

}  // namespace stepfuse::runtime
