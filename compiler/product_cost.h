// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

#include <cstdint>

namespace stepfuse::compiler {

/// Whether the target computes one triangle of a symmetric product of factors of this type.
inline bool computes_triangle(const TargetTraits& target, ir::DType factors) {
  return target.symmetric_products && factors == ir::DType::F32;
}

/// Of an m x n product over k; multiply and add are two. A triangle with the diagonal is n + 1 of 2n.
inline double product_flops(int64_t m, int64_t n, int64_t k, bool triangle) {
  return static_cast<double>(m) * static_cast<double>(triangle ? n + 1 : 2 * n) * static_cast<double>(k);
}

}  // namespace stepfuse::compiler
