// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/type.h"

#include <cstdint>

namespace stepfuse::codegen {

/// D = alpha * op(A) * op(B) + beta * C on row-major matrices, one result per batch entry.
/// Everything here is known when the plan is made; pointers and scalars come with each call.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;                 // op(A) is m x k, op(B) is k x n
  bool trans_a = false, trans_b = false;       // op(X) = X^T
  int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0;  // row strides in elements; the column stride is 1
  ir::DType ab = ir::DType::F32;               // element type of A and B
  ir::DType c = ir::DType::F32;                // element type of C (ignored without C)
  ir::DType d = ir::DType::F32;                // element type of D
  bool has_c = false;
  bool has_alpha = false;  // without it alpha is 1
  bool symmetric = false;  // D equals its transpose: one triangle may be computed and mirrored
  bool a_is_b = false;     // A and B are one buffer
  bool c_is_d = false;     // C and D are one buffer (in place)
};

}  // namespace stepfuse::codegen
