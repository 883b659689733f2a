// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"
#include "ir/support/status.h"
#include "runtime/kernel.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace stepfuse::runtime {

/// A kernel's code in memory of its own; it goes when the object dies. Code is never writable while it is executable,
/// constants are never executable.
class LoadedKernel final : public Kernel {
 public:
  LoadedKernel(void* memory, size_t bytes, codegen::KernelFn entry)
      : memory_(memory), bytes_(bytes), function_(entry) {}
  ~LoadedKernel() override;
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;

  codegen::KernelFn function() const { return function_; }
  size_t bytes() const { return bytes_; }

 private:
  void* memory_;
  size_t bytes_;
  codegen::KernelFn function_;
};

/// Loads a relocatable x86-64 ELF object that is complete in itself, as the compiler plugin makes it: code, constants
/// and PC-relative references between them, one global function `symbol`. Everything else is refused with InvalidData,
/// so that a damaged object never runs; that the bytes are ours is for the caller to know (the cache has a checksum).
/// No compiler and no dynamic linker take part. Other machines than x86-64: Unsupported.
Result<std::unique_ptr<LoadedKernel>> load_object(std::span<const std::byte> object, const std::string& symbol);

}  // namespace stepfuse::runtime
