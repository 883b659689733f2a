// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/elementwise_rule.h"

namespace stepfuse::ir {

namespace {

ValueId bias(Builder& b, ValueId beta, ValueId t) {
  return b.sub(b.constant(1), b.op(Op::Powi, {beta, t}), "correction");
}

}  // namespace

ValueId averaged(Builder& b, ValueId now, ValueId beta, std::string_view name, std::string_view key, DType dtype) {
  const ValueId before = b.state(std::string(name), std::string(key), dtype, b.shape(now));
  const ValueId after = b.op(Op::Lerp, {before, now, b.sub(b.constant(1), beta)}, std::string(name) + "_new", dtype);
  b.replace(before, after);
  return after;
}

ValueId corrected(Builder& b, ValueId m, ValueId g, ValueId beta, ValueId t, BiasCorrection how) {
  const ValueId one = b.constant(1);
  const ValueId now = how.correct ? bias(b, beta, t) : one;
  if (!how.nesterov) return how.correct ? b.div(m, now, "m_corrected") : m;
  const ValueId next = how.correct ? bias(b, beta, b.add(t, one)) : one;
  const ValueId ahead = b.div(b.mul(m, beta, "m_scaled"), next, "m_ahead");
  const ValueId fresh = b.div(b.mul(g, b.sub(one, beta), "g_scaled"), now, "g_share");
  return b.add(ahead, fresh, "m_nesterov");
}

Graph build_elementwise(const ElementwiseRule& rule, const OptionValues& values, const ParameterSpec& spec) {
  Builder b{std::string(rule.name)};
  const Shape shape = make_shape({b.symbol("N")});
  const ValueId p = b.param("p", spec.param, shape);
  const ValueId g = b.grad("g", spec.grad, shape);
  const ValueId lr = b.hyper("lr", values.number("lr"), kNonNegative);
  const ValueId weight_decay = b.hyper("weight_decay", values.number("weight_decay"), kNonNegative);
  Decayed decayed = apply_decay(b, rule.decay, {p, g}, lr, weight_decay);
  const ElementwiseRule::Direction direction = rule.direction(b, decayed.grad, spec);
  if (rule.decay == Decay::Cautious) decayed.param = apply_cautious_decay(b, p, direction.update, lr, weight_decay);
  const ValueId rate = direction.rate_factor ? b.mul(lr, *direction.rate_factor, "rate") : lr;
  if (rule.rounds_step) {
    const ValueId step = b.op(Op::Mul, {direction.update, rate}, "step", spec.param);
    b.replace(p, b.op(Op::Sub, {decayed.param, step}, "p_new", spec.param));
  } else {
    b.replace(p, b.op(Op::Axpy, {b.neg(rate), direction.update, decayed.param}, "p_new", spec.param));
  }
  return b.take();
}

}  // namespace stepfuse::ir
