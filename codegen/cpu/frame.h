// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cpu/loops.h"
#include "codegen/kernel.h"

#include <array>
#include <vector>

namespace stepfuse::codegen {

/// What the function reads once at its entry: its own arguments and the contents of the KernelCall.
struct Frame {
  llvm::Value* unit = nullptr;
  llvm::Value* begin = nullptr;
  llvm::Value* end = nullptr;
  std::array<llvm::Value*, 3> dims{};
  std::vector<llvm::Value*> bases;                   // per argument
  std::vector<std::array<llvm::Value*, 3>> strides;  // per argument, in elements; only where it varies
  std::vector<llvm::Value*> scalars;                 // double
  std::vector<llvm::Value*> partials;                // per reduction
};

/// The dimensions along which code treats a value as varying. A contiguous domain is a unit and one row of d1*d2
/// elements: dense values vary along 0 and 2 (with strides d1*d2 and 1), the others at most along 0.
Varies walked(const KernelSpec& spec, const Varies& varies);

Frame load_frame(Builder& b, const KernelSpec& spec, llvm::Function* function);

}  // namespace stepfuse::codegen
