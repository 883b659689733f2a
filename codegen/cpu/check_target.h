// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cpu/emit_llvm.h"

namespace stepfuse::codegen {

/// Whether `target` has the units that the kernel's exact definitions need (Environment otherwise): without them LLVM
/// would call a library function.
Outcome check_target(const KernelSpec& spec, const LlvmTarget& target);

}  // namespace stepfuse::codegen
