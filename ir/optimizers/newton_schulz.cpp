// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/newton_schulz.h"

namespace stepfuse::ir {

namespace {

ValueId cast_to(Builder& b, ValueId x, DType dtype, std::string_view name) {
  return b.dtype(x) == dtype ? x : b.op(Op::Cast, {x}, name, dtype);
}

ValueId normalised(Builder& b, ValueId m, ValueId eps, const NewtonSchulz& how) {
  const ValueId u = cast_to(b, m, how.norm_dtype, "u");
  ValueId norm = b.reduce(Op::Norm, u, Axis::Matrix, "norm");
  if (how.norm_factor != 1) norm = b.mul(norm, b.constant(how.norm_factor), "norm_with_room");
  const ValueId guarded =
      how.guard == NormGuard::Clamp ? b.op(Op::Max, {norm, eps}, "clamped") : b.add(norm, eps, "guarded");
  return cast_to(b, b.div(u, guarded, "x"), how.dtype, "x_narrow");
}

/// One iteration on a wide matrix, every op rounded to the type of the iteration.
ValueId iteration_per_op(Builder& b, ValueId x, const Coefficients& p, const NewtonSchulz& how) {
  const auto scaled = [&](ValueId tensor, double factor, std::string_view name) {
    return b.op(Op::Mul, {tensor, b.constant(factor)}, name, how.dtype);
  };
  const ValueId gram = b.matmul(x, x, {.trans_b = true}, "gram", how.dtype);
  const ValueId c_gram_sq = how.rounding == NsRounding::PerOp
                                ? b.matmul(scaled(gram, p.c, "c_gram"), gram, {}, "c_gram_sq", how.dtype)
                                : scaled(b.matmul(gram, gram, {}, "gram_sq", how.dtype), p.c, "c_gram_sq");
  const ValueId poly = b.op(Op::Add, {scaled(gram, p.b, "b_gram"), c_gram_sq}, "poly", how.dtype);
  const ValueId poly_x = b.matmul(poly, x, {}, "poly_x", how.dtype);
  return b.op(Op::Add, {scaled(x, p.a, "a_x"), poly_x}, "x", how.dtype);
}

/// One iteration on a wide matrix. Products and scalings are f32; each assignment (A, B, X) is rounded once to the
/// type of the iteration, as addmm rounds.
ValueId iteration(Builder& b, ValueId x, const Coefficients& p, DType dtype) {
  const ValueId gram = b.matmul(x, x, {.trans_b = true}, "gram", dtype);
  ValueId poly = gram;
  if (p.c != 0) {
    const ValueId gram_sq = b.matmul(gram, gram, {}, "gram_sq", DType::F32);
    const ValueId b_gram = b.op(Op::Mul, {gram, b.constant(p.b)}, "b_gram", DType::F32);
    const ValueId c_gram_sq = b.mul(gram_sq, b.constant(p.c), "c_gram_sq");
    poly = b.op(Op::Add, {b_gram, c_gram_sq}, "poly", dtype);
  }
  ValueId poly_x = b.matmul(poly, x, {}, "poly_x", DType::F32);
  if (p.c == 0) poly_x = b.mul(poly_x, b.constant(p.b), "b_gram_x");
  const ValueId a_x = b.op(Op::Mul, {x, b.constant(p.a)}, "a_x", DType::F32);
  return b.op(Op::Add, {a_x, poly_x}, "x", dtype);
}

}  // namespace

ValueId newton_schulz(Builder& b, ValueId m, ValueId eps, const NewtonSchulz& how) {
  ValueId x = normalised(b, m, eps, how);
  const bool tall = b.shape(x).from_end(1).value() > b.shape(x).from_end(0).value();
  if (tall) x = b.op(Op::Transpose, {x}, "x_wide");
  for (const Coefficients& p : how.triples)
    x = how.rounding == NsRounding::PerAssignment ? iteration(b, x, p, how.dtype) : iteration_per_op(b, x, p, how);
  return tall ? b.op(Op::Transpose, {x}, "x_tall") : x;
}

}  // namespace stepfuse::ir
