// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <string>
#include <string_view>

namespace stepfuse::codegen {

/// An element as it lies in memory: double, float, f16, bf16 or unsigned char.
std::string_view cuda_memory_type(ir::DType dtype);
/// A value in a register: double, float (16-bit types widened) or bool.
std::string_view cuda_value_type(ir::DType dtype);

/// How arithmetic in one math type is spelled: in strict mode by intrinsics, which the compiler never contracts;
/// otherwise by operators, except where an op is defined as an fma.
class Arithmetic {
 public:
  Arithmetic(ir::DType math, ir::Mode mode) : f64_(math == ir::DType::F64), strict_(mode == ir::Mode::Strict) {}

  ir::DType math() const { return f64_ ? ir::DType::F64 : ir::DType::F32; }
  std::string_view type() const { return f64_ ? "double" : "float"; }
  std::string_view abs() const { return f64_ ? "fabs" : "fabsf"; }
  std::string_view fma() const { return f64_ ? "__fma_rn" : "__fmaf_rn"; }
  std::string add(std::string_view a, std::string_view b) const { return infix("add", '+', a, b); }
  std::string sub(std::string_view a, std::string_view b) const { return infix("sub", '-', a, b); }
  std::string mul(std::string_view a, std::string_view b) const { return infix("mul", '*', a, b); }
  std::string div(std::string_view a, std::string_view b) const { return infix("div", '/', a, b); }
  std::string sqrt(std::string_view a) const;
  /// `value`, rounded once to the type; exact.
  std::string literal(double value) const;

 private:
  std::string infix(std::string_view intrinsic, char symbol, std::string_view a, std::string_view b) const;

  bool f64_;
  bool strict_;
};

}  // namespace stepfuse::codegen
