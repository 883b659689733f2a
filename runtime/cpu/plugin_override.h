// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cpu/emit_llvm.h"
#include "runtime/cpu/jit.h"

#include <memory>

namespace stepfuse::runtime {

/// Reads a person's LLVM IR for the kernel `spec`: it must define the function spec.name of type codegen::KernelFn, and
/// may hold helpers and constants of its own, but need nothing from outside and keep nothing between calls. Every
/// function gets the features of the target, whatever the text says, so that it runs where the generated kernel would.
/// Each complaint is InvalidData.
Result<std::unique_ptr<llvm::Module>> read_override(llvm::LLVMContext& context, const LlvmIrOverride& replacement,
                                                    const codegen::KernelSpec& spec, const codegen::LlvmTarget& target);

}  // namespace stepfuse::runtime
