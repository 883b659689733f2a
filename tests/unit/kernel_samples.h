// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"

#include <vector>

namespace stepfuse::test {

inline constexpr codegen::Varies kAll{true, true, true};
inline constexpr codegen::Varies kNone{};

codegen::Operand arg(uint32_t i);
codegen::Operand instr(uint32_t i);
codegen::Operand scalar(uint32_t i);
codegen::Operand constant(double value);
codegen::KernelArg input(ir::DType dtype, codegen::Varies varies = kAll);
codegen::KernelArg output(ir::DType dtype, codegen::Varies varies = kAll);

std::vector<ir::Op> elementwise_ops();

/// Strict, without arguments yet.
codegen::KernelSpec strict_spec(codegen::Scheme scheme, bool contiguous);
/// out = op(in0, in1, ...); with `with_scalar`, the last number comes from a scalar slot.
codegen::KernelSpec op_spec(ir::Op op, ir::DType dtype, codegen::Scheme scheme, bool contiguous, bool with_scalar);
/// Everything at once: broadcasts along each dimension, hoisted values of every level, stores of every level.
codegen::KernelSpec broadcast_spec(codegen::Scheme scheme);
/// p, g, m, v in place, as torch writes it. Slots: 1 - lr wd, 1 - beta1, beta2, 1 - beta2, -step size, root of the
/// second bias correction, eps.
codegen::KernelSpec adamw_spec(ir::Mode mode);

}  // namespace stepfuse::test
