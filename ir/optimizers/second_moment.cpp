// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/second_moment.h"

namespace stepfuse::ir {

namespace {

/// v = lerp(v, now, 1 - beta2).
ValueId average(Builder& b, ValueId v, ValueId now, double beta2) {
  const ValueId decay = b.hyper("beta2", beta2, kUnit);
  const ValueId next = b.op(Op::Lerp, {v, now, b.sub(b.constant(1), decay)}, "v_new", b.dtype(v));
  b.replace(v, next);
  return next;
}

/// The shape without its rows' or columns' extent, which stays as 1.
Shape reduced(Shape shape, Axis axis) {
  const auto last = static_cast<size_t>(shape.rank) - 1;
  if (axis != Axis::Cols) shape.dims[last] = Extent::of(1);
  if (axis != Axis::Rows) shape.dims[last - 1] = Extent::of(1);
  return shape;
}

ValueId mean_square(Builder& b, ValueId x, Axis axis) {
  const Shape& shape = b.shape(x);
  const int64_t count = axis == Axis::Rows ? shape.from_end(0).value() : shape.from_end(1).value();
  const ValueId sum = b.reduce(Op::Sum, b.mul(x, x, "o_sq"), axis, "o_sq_sum");
  return b.div(sum, b.constant(static_cast<double>(count)), "o_sq_mean");
}

/// `x` times |reference| / max(|x|, eps).
ValueId with_norm_of(Builder& b, ValueId x, ValueId reference, ValueId eps) {
  const ValueId own = b.op(Op::Max, {b.reduce(Op::Norm, x, Axis::Matrix, "norm_now"), eps}, "norm_now_clamped");
  const ValueId wanted = b.reduce(Op::Norm, reference, Axis::Matrix, "norm_before");
  return b.op(Op::Mul, {x, b.div(wanted, own, "norm_ratio")}, "o_rescaled", b.dtype(x));
}

}  // namespace

Adapt adamuon(double beta2, double eps) {
  return [=](Builder& b, const OrthogonalRule::Update& u) {
    const ValueId v = b.state("v", "moment2_buffer", u.spec.state, b.shape(u.update));
    const ValueId next = average(b, v, b.mul(u.update, u.update, "o_sq"), beta2);
    return b.div(u.update, b.add(b.sqrt(next, "root"), b.hyper("eps", eps, kNonNegative), "denominator"), "o_adapted");
  };
}

Adapt normuon_by_shape(double beta2, double eps) {
  return [=](Builder& b, const OrthogonalRule::Update& u) {
    const Shape& shape = b.shape(u.update);
    const Axis axis = shape.from_end(1).value() >= shape.from_end(0).value() ? Axis::Rows : Axis::Cols;
    const ValueId v = b.state("v", "moment2_buffer", u.spec.state, reduced(shape, axis));
    const ValueId next = average(b, v, mean_square(b, u.update, axis), beta2);
    const ValueId floor = b.hyper("eps", eps, kNonNegative);
    const ValueId root = b.sqrt(b.op(Op::Max, {next, floor}, "v_clamped"), "root");
    return with_norm_of(b, b.div(u.update, root, "o_adapted"), u.update, floor);
  };
}

Adapt normuon_by_row(double beta2) {
  return [=](Builder& b, const OrthogonalRule::Update& u) {
    const ValueId v = b.state("v", "variance_neuron", u.spec.state, reduced(b.shape(u.update), Axis::Rows));
    const ValueId next = average(b, v, mean_square(b, u.update, Axis::Rows), beta2);
    const ValueId eps = b.constant(1e-8);
    const ValueId denominator = b.add(b.sqrt(next, "root"), eps, "denominator");
    return with_norm_of(b, b.div(u.update, denominator, "o_adapted"), u.update, eps);
  };
}

Adapt namo(double beta2, double eps) {
  return [=](Builder& b, const OrthogonalRule::Update& u) {
    const ValueId v = b.state("v", "moment2_buffer", u.spec.state, reduced(b.shape(u.update), Axis::Matrix));
    const ValueId norm = b.reduce(Op::Norm, u.grad, Axis::Matrix, "g_norm", DType::F32);
    const ValueId next = average(b, v, b.mul(norm, norm, "g_norm_sq"), beta2);
    const ValueId denominator = b.add(b.sqrt(next, "root"), b.hyper("eps", eps, kNonNegative), "denominator");
    const ValueId direction = b.reduce(Op::Norm, u.direction, Axis::Matrix, "direction_norm");
    return b.mul(u.update, b.div(direction, denominator, "alpha"), "o_adapted");
  };
}

}  // namespace stepfuse::ir
