// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/builder.h"
#include "ir/optimizers/coefficients.h"

#include <vector>

namespace stepfuse::ir {

/// What the norm is kept away from 0 by.
enum class NormGuard : uint8_t { Clamp, Add };  // max(norm, eps), norm + eps

/// Where an iteration rounds to its type. In f32 it makes no difference to speak of; in bf16 it moves the result by
/// several hundredths.
enum class NsRounding : uint8_t {
  PerAssignment,      // A, B and X once each, as addmm and baddbmm round
  PerOp,              // every scaling, product and sum: b A + (c A) A, then a X + B X
  PerOpProductFirst,  // likewise, with c (A A)
};

/// Orthogonalisation by Newton-Schulz: the matrix divided by its Frobenius norm, then one polynomial per triple.
struct NewtonSchulz {
  std::vector<Coefficients> triples = {};
  DType dtype = DType::BF16;       // of the iteration
  DType norm_dtype = DType::BF16;  // in which the matrix is divided by its norm
  NormGuard guard = NormGuard::Clamp;
  NsRounding rounding = NsRounding::PerAssignment;
  double norm_factor = 1;  // the norm counts so many times, before eps
};

/// Roughly the polar factor of the R x C matrix `m`, in the iteration's type. A tall matrix is transposed, so that the
/// Gram matrices are taken on the short side.
ValueId newton_schulz(Builder& b, ValueId m, ValueId eps, const NewtonSchulz& how);

}  // namespace stepfuse::ir
