// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cuda/helpers.h"
#include "codegen/cuda/types.h"

#include <span>

namespace stepfuse::codegen {

/// Whether operand `index` of `op` is a truth value (bool) instead of a number in the math type.
bool cuda_takes_bool(ir::Op op, size_t index);

/// The expression of one elementwise op as ir/ops.def defines it, before the rounding to the result's type. Operands
/// are expressions that need no parentheses. Gives a number of the math type, or a bool.
std::string cuda_expression(ir::Op op, const Arithmetic& math, std::span<const std::string> operands,
                            CudaHelpers& helpers);

/// Whether the expression is a bool.
bool cuda_gives_bool(ir::Op op);

}  // namespace stepfuse::codegen
