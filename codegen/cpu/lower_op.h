// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cpu/loops.h"
#include "ir/op.h"

#include <span>

namespace stepfuse::codegen {

/// Whether operand `index` of `op` is a truth value (i1) instead of a number in the math type.
bool takes_bool(ir::Op op, size_t index);

/// One elementwise op as ir/ops.def defines it, before the rounding to the result's type. All operands have one width;
/// numbers are of the math type. Gives a number of the math type, or i1.
llvm::Value* lower_op(Builder& b, ir::Op op, std::span<llvm::Value* const> operands);

}  // namespace stepfuse::codegen
