// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cpu/emit_llvm.h"

namespace stepfuse::codegen {

/// Whether `spec` is well formed (Internal otherwise: the compiler made it) and `target` has the units that its exact
/// definitions need (Environment otherwise): without them LLVM would call a library function.
Outcome check_spec(const KernelSpec& spec, const LlvmTarget& target);

}  // namespace stepfuse::codegen
