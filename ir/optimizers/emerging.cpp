// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/emerging.h"

namespace stepfuse::ir {

OptionInfo weight_decay_method_option() {
  return {"weight_decay_method",
          OptionKind::Choice,
          "decoupled",
          {},
          {"decoupled", "independent", "l2", "palm"},
          {},
          "W -= wd lr W; W -= wd W; G += wd W; W -= wd lr^2 W",
          kEmerging};
}

OptionInfo fp32_matmul_prec_option(std::string_view name, std::string_view default_text) {
  return {name,
          OptionKind::Choice,
          default_text,
          {},
          {"highest", "high", "medium"},
          {},
          "the least precision of its f32 products; ours are f32, which serves each",
          kEmerging};
}

Outcome check_matrix(std::string_view recipe, const ParameterSpec& spec) {
  if (spec.shape.size() == 2) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "{} takes matrices (2 dimensions); this parameter has {}", recipe,
                        spec.shape.size()),
                   "give parameters that are not matrices to another recipe, such as adamw");
}

Decayed apply_weight_decay(Builder& b, std::string_view method, ValueId p, ValueId g, ValueId lr,
                           ValueId weight_decay) {
  if (method == "l2") return {p, b.op(Op::Select, {weight_decay, b.axpy(weight_decay, p, g, "g_l2"), g}, "g_decayed")};
  ValueId strength = weight_decay;
  if (method == "decoupled") strength = b.mul(weight_decay, lr);
  if (method == "palm") strength = b.mul(b.mul(weight_decay, lr), lr);
  const ValueId decayed = b.op(Op::Axpy, {b.neg(strength), p, p}, "p_less", b.dtype(p));
  return {b.op(Op::Select, {weight_decay, decayed, p}, "p_decayed", b.dtype(p)), g};
}

}  // namespace stepfuse::ir
