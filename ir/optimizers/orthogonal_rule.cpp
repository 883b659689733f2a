// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/orthogonal_rule.h"

namespace stepfuse::ir {

namespace {

ValueId option_or_one(Builder& b, const OptionValues& values, std::string_view name, const Interval& range) {
  return values.has(name) ? b.hyper(std::string(name), values.number(name), range) : b.constant(1);
}

Outcome check_shape(const OrthogonalRule& rule, const ParameterSpec& spec) {
  const size_t rank = spec.shape.size();
  if (rank == 2 || (rank == 3 && rule.takes_batches)) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "{} takes matrices (2 dimensions{}); this parameter has {}",
                        rule.name, rule.takes_batches ? ", or 3 for a batch of them" : "", rank),
                   "give parameters that are not matrices to another recipe, such as adamw");
}

struct Moved {
  ValueId buffer, direction;
};

Moved move(Builder& b, const OrthogonalRule& rule, ValueId buffer, ValueId g, ValueId momentum, DType dtype) {
  if (rule.momentum == MomentumForm::Lerp) {
    const ValueId next = b.op(Op::Lerp, {buffer, g, b.sub(b.constant(1), momentum)}, "buf_new", dtype);
    return {next, rule.nesterov ? b.op(Op::Lerp, {g, next, momentum}, "update", dtype) : next};
  }
  const ValueId next = b.op(Op::Add, {b.op(Op::Mul, {buffer, momentum}, "buf_scaled", dtype), g}, "buf_new", dtype);
  return {next, rule.nesterov ? b.op(Op::Axpy, {momentum, next, g}, "update", dtype) : next};
}

/// Scale on the update, each factor rounded as the peers round it.
ValueId scaled(Builder& b, const OrthogonalRule& rule, ValueId update) {
  const Shape& shape = b.shape(update);
  const double factor = shape_scale(rule.scale, static_cast<double>(shape.from_end(1).value()),
                                    static_cast<double>(shape.from_end(0).value()));
  const DType dtype = b.dtype(update);
  if (rule.scale != ScaleMode::None) update = b.op(Op::Mul, {update, b.constant(factor)}, "update_scaled", dtype);
  if (rule.extra_scale != 1) update = b.op(Op::Mul, {update, b.constant(rule.extra_scale)}, "update_rescaled", dtype);
  return update;
}

ValueId scaled_rate(Builder& b, const OrthogonalRule& rule, ValueId lr, const std::vector<int64_t>& shape) {
  return rule.scales_rate ? b.mul(lr, b.constant(total_scale(rule, shape)), "adjusted_lr") : lr;
}

}  // namespace

double total_scale(const OrthogonalRule& rule, const std::vector<int64_t>& shape) {
  const size_t last = shape.size() - 1;
  return shape_scale(rule.scale, static_cast<double>(shape[last - 1]), static_cast<double>(shape[last])) *
         rule.extra_scale;
}

Result<Graph> build_orthogonal(const OrthogonalRule& rule, const OptionValues& values, const ParameterSpec& spec) {
  STEPFUSE_TRY(check_shape(rule, spec));
  Builder b{std::string(rule.name)};
  Shape shape;
  for (const int64_t extent : spec.shape) shape.dims[shape.rank++] = Extent::of(extent);
  const ValueId p = b.param("p", spec.param, shape);
  const ValueId g = b.grad("g", spec.grad, shape);
  const ValueId buffer = b.state("buf", std::string(rule.buffer_key), spec.state, shape);
  const ValueId lr = option_or_one(b, values, "lr", kNonNegative);
  const ValueId momentum = option_or_one(b, values, "momentum", kUnit);
  const ValueId weight_decay = option_or_one(b, values, "weight_decay", kNonNegative);

  const bool decays_last = rule.decay == Decay::Rescale || rule.decay == Decay::Cautious;
  Decayed decayed{p, g};
  if (!decays_last) decayed = apply_decay(b, rule.decay, decayed, lr, weight_decay);
  const Moved moved = move(b, rule, buffer, decayed.grad, momentum, spec.state);
  ValueId update = rule.orthogonalise(b, moved.direction);
  if (rule.update_dtype && *rule.update_dtype != b.dtype(update))
    update = b.op(Op::Cast, {update}, "update_wide", *rule.update_dtype);
  if (rule.adapt) update = rule.adapt(b, {update, decayed.grad, moved.direction, spec});
  if (!rule.scales_rate) update = scaled(b, rule, update);
  if (rule.decay == Decay::Rescale) decayed = apply_decay(b, rule.decay, decayed, lr, weight_decay);
  if (rule.decay == Decay::Cautious) decayed.param = apply_cautious_decay(b, p, update, lr, weight_decay);
  const ValueId rate = scaled_rate(b, rule, lr, spec.shape);
  if (rule.rounds_step) {
    const ValueId step = b.op(Op::Mul, {update, rate}, "step", b.dtype(update));
    b.replace(p, b.op(Op::Sub, {decayed.param, step}, "p_new", spec.param));
  } else {
    b.replace(p, b.op(Op::Axpy, {b.neg(rate), update, decayed.param}, "p_new", spec.param));
  }
  b.replace(buffer, moved.buffer);
  return b.take();
}

Outcome check_emerging_types(std::string_view recipe, const ParameterSpec& spec) {
  if (spec.param == DType::F32 && spec.state == DType::F32) return {};
  return with_hint(fail(StatusCode::InvalidArgument,
                        "{}: emerging-optimizers takes f32 parameters; this one is {}, with states in {}", recipe,
                        dtype_name(spec.param), dtype_name(spec.state)),
                   "give it the f32 master copy, or take another preset");
}

}  // namespace stepfuse::ir
