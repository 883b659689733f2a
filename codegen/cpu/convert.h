// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cpu/loops.h"
#include "ir/type.h"

namespace stepfuse::codegen {

/// One element, or `width` neighbours side by side, of a value. In registers f64 is double, f32, f16 and bf16 are float
/// (16-bit types rounded to their own values) and bool is i1.
struct Lanes {
  llvm::Value* value = nullptr;
  ir::DType dtype = ir::DType::F32;
  llvm::Value* packed = nullptr;  // f16, bf16: the same as i16, where that is known without another rounding
};

unsigned width_of(const llvm::Value* value);
llvm::Type* with_width(llvm::Type* element, unsigned width);  // the type itself for width 1
llvm::Value* splat(Builder& b, llvm::Value* value, unsigned width);

/// How an element lies in memory: double, float, i16 or i8.
llvm::Type* memory_type(Builder& b, ir::DType dtype);
/// double or float.
llvm::Type* math_type(Builder& b, ir::DType math);

Lanes unpack(Builder& b, llvm::Value* memory, ir::DType dtype);
llvm::Value* pack(Builder& b, const Lanes& lanes);

/// A register value (double, float or i1) in the math type; exact unless it narrows f64 to f32.
llvm::Value* to_math(Builder& b, llvm::Value* value, ir::DType math);
/// A register value as a truth value: not 0.
llvm::Value* to_bool(Builder& b, llvm::Value* value);
/// A register value rounded once, to nearest even, to `dtype`. 16-bit types are rounded in integer arithmetic (bf16) or
/// by F16C, never by a library call, and f64 reaches them without a second rounding.
Lanes round_to(Builder& b, llvm::Value* value, ir::DType dtype);

}  // namespace stepfuse::codegen
