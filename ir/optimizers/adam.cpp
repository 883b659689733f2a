// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Adam and AdamW in the order of torch 2.15.0's single-tensor loop (torch/optim/adam.py, _single_tensor_adam):
// Kingma and Ba 2015, and Loshchilov and Hutter 2019 for the decoupled decay.
#include "ir/builder.h"
#include "ir/optimizers/recipe.h"

namespace stepfuse::ir {

namespace {

constexpr std::string_view kTorch = "torch.optim 2.15.0";

std::vector<OptionInfo> adam_options(std::string_view weight_decay) {
  return {
      {"lr", OptionKind::Number, "0.001", kNonNegative, {}, {}, "learning rate", kTorch},
      {"betas",
       OptionKind::Numbers,
       "0.9,0.999",
       kUnit,
       {},
       {"beta1", "beta2"},
       "decay of the two moment averages",
       kTorch},
      {"eps", OptionKind::Number, "1e-8", kNonNegative, {}, {}, "added to the denominator, outside the root", kTorch},
      {"weight_decay", OptionKind::Number, weight_decay, kNonNegative, {}, {}, "strength of the decay", kTorch},
      {"amsgrad", OptionKind::Bool, "false", {}, {}, {}, "divide by the largest second moment so far", kTorch},
      {"maximize", OptionKind::Bool, "false", {}, {}, {}, "ascend instead of descend", kTorch}};
}

std::span<const OptionInfo> adamw_table() {
  static const std::vector<OptionInfo> kTable = adam_options("0.01");
  return kTable;
}

std::span<const OptionInfo> adam_table() {
  static const std::vector<OptionInfo> kTable = adam_options("0");
  return kTable;
}

Outcome no_cross_checks(const OptionValues&) { return {}; }

struct Moments {
  ValueId exp_avg, exp_avg_sq;
};

/// p - step_size * m / (sqrt(v) / sqrt(1 - beta2^t) + eps), with the roundings of torch's addcdiv.
ValueId apply_update(Builder& b, ValueId p, const Moments& moments, ValueId t, const ValueId (&hyper)[4]) {
  const auto [lr, beta1, beta2, eps] = hyper;
  const ValueId one = b.constant(1);
  const ValueId correction1 = b.sub(one, b.op(Op::Powi, {beta1, t}), "correction1");
  const ValueId correction2 = b.sub(one, b.op(Op::Powi, {beta2, t}), "correction2");
  const ValueId step_size = b.div(lr, correction1, "step_size");
  const ValueId root = b.sqrt(moments.exp_avg_sq, "root");
  const ValueId corrected = b.div(root, b.sqrt(correction2), "corrected");
  const ValueId denominator = b.add(corrected, eps, "denominator");
  return b.op(Op::Addcdiv, {p, b.neg(step_size), moments.exp_avg, denominator}, "p_new", b.dtype(p));
}

Graph build_adam(const OptionValues& values, const ParameterSpec& spec, bool decoupled) {
  Builder b(decoupled ? "adamw" : "adam");
  const Shape shape = make_shape({b.symbol("N")});
  const ValueId p = b.param("p", spec.param, shape);
  ValueId g = b.grad("g", spec.grad, shape);
  const ValueId m = b.state("m", "exp_avg", spec.state, shape);
  const ValueId v = b.state("v", "exp_avg_sq", spec.state, shape);
  const ValueId t = b.step("t");
  const ValueId lr = b.hyper("lr", values.number("lr"), kNonNegative);
  const ValueId beta1 = b.hyper("beta1", values.number("beta1"), kUnit);
  const ValueId beta2 = b.hyper("beta2", values.number("beta2"), kUnit);
  const ValueId eps = b.hyper("eps", values.number("eps"), kNonNegative);
  const ValueId weight_decay = b.hyper("weight_decay", values.number("weight_decay"), kNonNegative);
  const ValueId one = b.constant(1);

  if (values.flag("maximize")) g = b.neg(g, "g_up");
  ValueId decayed = p;
  if (decoupled) {
    decayed = b.mul(p, b.sub(one, b.mul(lr, weight_decay)), "p_decayed");
  } else {
    // torch leaves the gradient alone when the decay is 0: 0 * p is NaN for an infinite p.
    g = b.op(Op::Select, {weight_decay, b.axpy(weight_decay, p, g, "g_l2"), g}, "g_decayed");
  }
  const ValueId m_new = b.op(Op::Lerp, {m, g, b.sub(one, beta1)}, "m_new", spec.state);
  const ValueId v_scaled = b.mul(v, beta2, "v_scaled");
  const ValueId v_new = b.op(Op::Addcmul, {v_scaled, b.sub(one, beta2), g, g}, "v_new", spec.state);
  Moments moments{m_new, v_new};
  if (values.flag("amsgrad")) {
    const ValueId v_max = b.state("v_max", "max_exp_avg_sq", spec.state, shape);
    moments.exp_avg_sq = b.op(Op::Max, {v_max, v_new}, "v_max_new", spec.state);
    b.replace(v_max, moments.exp_avg_sq);
  }
  b.replace(p, apply_update(b, decayed, moments, t, {lr, beta1, beta2, eps}));
  b.replace(m, m_new);
  b.replace(v, v_new);
  return b.take();
}

Result<Graph> build_adamw_graph(const OptionValues& values, const ParameterSpec& spec) {
  return build_adam(values, spec, true);
}
Result<Graph> build_adam_graph(const OptionValues& values, const ParameterSpec& spec) {
  return build_adam(values, spec, false);
}

/// aten kernels of one parameter's loop step (TorchDispatchMode on 2.15.0): the step counter, mul or add, lerp, mul,
/// addcmul, sqrt, div, add, addcdiv; maximum and neg where asked for.
PeerLaunches peer(const OptionValues& values, std::string_view name, bool decays) {
  const int64_t optional = (values.flag("amsgrad") ? 1 : 0) + (values.flag("maximize") ? 1 : 0) + (decays ? 1 : 0);
  return {name, 8 + optional, 0};
}

PeerLaunches peer_adamw(const OptionValues& values) {
  return peer(values, "torch.optim.AdamW loop", values.number("weight_decay") != 0);
}
PeerLaunches peer_adam(const OptionValues& values) {
  return peer(values, "torch.optim.Adam loop", values.number("weight_decay") != 0);
}

}  // namespace

const Recipe kAdamWRecipe{"adamw",
                          "Adam with decoupled weight decay",
                          "torch.optim.AdamW 2.15.0",
                          adamw_table,
                          no_cross_checks,
                          build_adamw_graph,
                          peer_adamw};
const Recipe kAdamRecipe{"adam",
                         "Adam; weight decay is added to the gradient (L2)",
                         "torch.optim.Adam 2.15.0",
                         adam_table,
                         no_cross_checks,
                         build_adam_graph,
                         peer_adam};

}  // namespace stepfuse::ir
