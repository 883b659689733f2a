// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cpu/jit.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace stepfuse::runtime {

/// Kernels of this process by their complete text and target, so that shapes, parameters and optimizers share code.
/// Thread-safe. Two threads that miss the same kernel at once both compile it; the first result is kept.
class KernelCache {
 public:
  static KernelCache& get();

  /// `compiled`, if given, says whether the process had no such kernel.
  Result<std::shared_ptr<const LoadedKernel>> find_or_compile(const codegen::KernelSpec& spec, const CpuTarget& target,
                                                              bool* compiled = nullptr);

  /// The readable key: version of the text, target features, kernel text.
  static std::string key(const codegen::KernelSpec& spec, const CpuTarget& target);

  int64_t compiled() const;  // since the process started

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const LoadedKernel>> kernels_;
  int64_t compiled_ = 0;
};

}  // namespace stepfuse::runtime
