// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// SGD in the order of torch 2.15.0's single-tensor loop (torch/optim/sgd.py, _single_tensor_sgd).
#include "ir/builder.h"
#include "ir/optimizers/recipe.h"

namespace stepfuse::ir {

namespace {

constexpr std::string_view kTorch = "torch.optim 2.15.0";

std::span<const OptionInfo> sgd_table() {
  static const std::vector<OptionInfo> kTable{
      {"lr", OptionKind::Number, "0.001", kNonNegative, {}, {}, "learning rate", kTorch},
      {"momentum", OptionKind::Number, "0", kUnit, {}, {}, "decay of the momentum buffer; 0 keeps no buffer", kTorch},
      {"dampening",
       OptionKind::Number,
       "0",
       kFinite,
       {},
       {},
       "the gradient enters the buffer times 1 - dampening",
       kTorch},
      {"weight_decay",
       OptionKind::Number,
       "0",
       kNonNegative,
       {},
       {},
       "added to the gradient (L2), before momentum",
       kTorch},
      {"nesterov", OptionKind::Bool, "false", {}, {}, {}, "step along g + momentum * buffer", kTorch},
      {"maximize", OptionKind::Bool, "false", {}, {}, {}, "ascend instead of descend", kTorch}};
  return kTable;
}

Outcome validate_sgd(const OptionValues& values) {
  if (!values.flag("nesterov") || (values.number("momentum") > 0 && values.number("dampening") == 0)) return {};
  return with_hint(fail(StatusCode::InvalidArgument,
                        "sgd: nesterov needs momentum > 0 and dampening = 0, got momentum={} dampening={}",
                        values.text("momentum"), values.text("dampening")),
                   "set momentum=0.9 dampening=0, or nesterov=false");
}

Result<Graph> build_sgd(const OptionValues& values, const ParameterSpec& spec) {
  Builder b("sgd");
  const Shape shape = make_shape({b.symbol("N")});
  const ValueId p = b.param("p", spec.param, shape);
  ValueId g = b.grad("g", spec.grad, shape);
  const ValueId lr = b.hyper("lr", values.number("lr"), kNonNegative);
  const ValueId weight_decay = b.hyper("weight_decay", values.number("weight_decay"), kNonNegative);

  if (values.flag("maximize")) g = b.neg(g, "g_up");
  g = b.op(Op::Select, {weight_decay, b.axpy(weight_decay, p, g, "g_l2"), g}, "g_decayed");
  if (values.number("momentum") != 0) {
    const ValueId buffer = b.state("buf", "momentum_buffer", spec.state, shape);
    // 0 would need no buffer, which is another plan: it is refused once the plan is made.
    const ValueId momentum = b.hyper("momentum", values.number("momentum"), Interval{0, 1, true, true});
    const Interval dampening_range = values.flag("nesterov") ? Interval{0, 0, false, false} : kFinite;
    const ValueId dampening = b.hyper("dampening", values.number("dampening"), dampening_range);
    const ValueId scaled = b.mul(buffer, momentum, "buf_scaled");
    const ValueId accumulated = b.axpy(b.sub(b.constant(1), dampening), g, scaled, "buf_next");
    // The first step copies the gradient: neither momentum nor dampening applies.
    const ValueId buffer_new = b.op(Op::Select, {b.op(Op::Fresh, {buffer}), g, accumulated}, "buf_new", spec.state);
    b.replace(buffer, buffer_new);
    g = values.flag("nesterov") ? b.axpy(momentum, buffer_new, g, "g_nesterov") : buffer_new;
  }
  b.replace(p, b.op(Op::Axpy, {b.neg(lr), g, p}, "p_new", spec.param));
  return b.take();
}

/// add for decay, mul and add for the buffer, add for nesterov, add for the step; neg where asked for.
PeerLaunches peer_sgd(const OptionValues& values) {
  int64_t launches = 1 + (values.number("weight_decay") != 0 ? 1 : 0) + (values.flag("maximize") ? 1 : 0);
  if (values.number("momentum") != 0) launches += 2 + (values.flag("nesterov") ? 1 : 0);
  return {"torch.optim.SGD loop", launches, 0};
}

}  // namespace

const Recipe kSgdRecipe{
    "sgd",   "Stochastic gradient descent with momentum", "torch.optim.SGD 2.15.0", sgd_table, validate_sgd, build_sgd,
    peer_sgd};

}  // namespace stepfuse::ir
