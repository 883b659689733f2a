// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"
#include "ir/support/status.h"

#include <memory>
#include <string>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

namespace stepfuse::codegen {

/// What the generated code may use. The runtime fills it from detected CPU bits or a named level.
struct LlvmTarget {
  std::string name;  // for messages
  std::string triple;
  std::string features;  // complete: put on every function, since a TargetMachine's own list does not override it
  int vector_bytes = 16;
  bool fma = false;
  bool f16c = false;
};

/// One module with one global function, spec.name, of type KernelFn. Pure: equal input, equal module. The vectors are
/// explicit, so that speed does not depend on what the loop vectoriser recognises, and the code calls nothing.
Result<std::unique_ptr<llvm::Module>> emit_llvm(llvm::LLVMContext& context, const KernelSpec& spec,
                                                const LlvmTarget& target);

}  // namespace stepfuse::codegen
