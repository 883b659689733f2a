// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/decay.h"

#include "ir/optimizers/options.h"

namespace stepfuse::ir {

namespace {

/// `alpha` times the parameter added to `to`, which stays as it is without decay: 0 times infinity is NaN.
ValueId add_share(Builder& b, ValueId weight_decay, ValueId alpha, ValueId param, ValueId to, std::string_view name) {
  const ValueId sum = b.op(Op::Axpy, {alpha, param, to}, std::string(name) + "_share", b.dtype(to));
  return b.op(Op::Select, {weight_decay, sum, to}, name);
}

}  // namespace

Decay decay_named(std::string_view method) {
  if (method == "decoupled") return Decay::Decoupled;
  if (method == "independent") return Decay::Independent;
  if (method == "l2") return Decay::L2;
  STEPFUSE_CHECK(method == "palm", "there is no decay method '{}'", method);
  return Decay::Palm;
}

OptionInfo decay_method_option(std::string_view source) {
  return choice_option("weight_decay_method", "decoupled", {"decoupled", "independent", "l2", "palm"},
                       "p loses wd lr p, wd p, or wd lr^2 p before the update; l2 adds wd p to the gradient", source);
}

Decayed apply_decay(Builder& b, Decay decay, const Decayed& before, ValueId lr, ValueId weight_decay) {
  const auto [p, g] = before;
  const ValueId one = b.constant(1);
  switch (decay) {
    case Decay::Rescale:
      return {b.mul(p, b.sub(one, b.mul(lr, weight_decay)), "p_decayed"), g};
    case Decay::Cautious:
      return before;
    case Decay::Decoupled:
      return {add_share(b, weight_decay, b.neg(b.mul(weight_decay, lr)), p, p, "p_decayed"), g};
    case Decay::Independent:
      return {add_share(b, weight_decay, b.neg(weight_decay), p, p, "p_decayed"), g};
    case Decay::L2:
      return {p, add_share(b, weight_decay, weight_decay, p, g, "g_decayed")};
    case Decay::Palm:
      return {add_share(b, weight_decay, b.neg(b.mul(b.mul(weight_decay, lr), lr)), p, p, "p_decayed"), g};
  }
  STEPFUSE_CHECK(false, "unknown decay");
}

ValueId apply_cautious_decay(Builder& b, ValueId param, ValueId update, ValueId lr, ValueId weight_decay) {
  const ValueId agree = b.op(Op::Ge, {b.mul(param, update, "p_times_update"), b.constant(0)}, "agree");
  const ValueId decayed = b.op(Op::Axpy, {b.neg(b.mul(lr, weight_decay)), param, param}, "p_shrunk", b.dtype(param));
  return b.op(Op::Select, {agree, decayed, param}, "p_decayed");
}

}  // namespace stepfuse::ir
