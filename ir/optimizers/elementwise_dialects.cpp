// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Lion, Signum and Adam outside torch. emerging: NVIDIA's emerging-optimizers, with decay first. keller: the auxiliary
// Adam of KellerJordan/Muon. moonlight: the AdamW beside Moonlight's Muon. dion: the AdamW and Lion beside dion's.
#include "ir/optimizers/elementwise_rule.h"
#include "ir/optimizers/options.h"

namespace stepfuse::ir {

namespace {

using Direction = ElementwiseRule::Direction;

constexpr std::string_view kEmerging = "emerging-optimizers 0.3.0";
constexpr std::string_view kKeller = "KellerJordan/Muon 2025-11";
constexpr std::string_view kMoonlight = "Moonlight, examples/toy_train.py";
constexpr std::string_view kDion = "dion 2026-08";

OptionInfo lr_option(std::string_view value, std::string_view source) {
  return number_option("lr", value, kNonNegative, "learning rate", source);
}

OptionInfo decay_option(std::string_view value, std::string_view source) {
  return number_option("weight_decay", value, kNonNegative, "strength of the decay", source);
}

OptionInfo eps_option(std::string_view value, std::string_view source) {
  return number_option("eps", value, kNonNegative, "added to the denominator, outside the root", source);
}

OptionInfo cautious_option() {
  return flag_option("cautious_wd", "false", "decay only where parameter and update agree in sign", kDion);
}

constexpr std::string_view kMoments = "decay of the two moment averages";
constexpr std::string_view kLionBetas = "weights of the average in the update and in the average itself";

// ---- directions ----

/// sign(lerp(m, g, 1 - beta1)) with the average as it was; then the average by beta2 (Chen et al. 2023).
auto lion_direction(const OptionValues& values, std::string_view key) {
  return [beta1 = values.number("beta1"), beta2 = values.number("beta2"), key](Builder& b, ValueId g,
                                                                               const ParameterSpec& spec) {
    const ValueId m = b.state("m", std::string(key), spec.state, b.shape(g));
    const ValueId one = b.constant(1);
    const ValueId mixed = b.op(Op::Lerp, {m, g, b.sub(one, b.hyper("beta1", beta1, kUnit))}, "mixed", spec.state);
    b.replace(m, b.op(Op::Lerp, {m, g, b.sub(one, b.hyper("beta2", beta2, kUnit))}, "m_new", spec.state));
    return Direction{b.op(Op::Sign, {mixed}, "update"), {}};
  };
}

BiasCorrection correction_of(const OptionValues& values) {
  return {values.flag("correct_bias"), values.flag("nesterov")};
}

/// The sign of the average, times 2 / (R + C) of an R x C matrix if asked for (arXiv 2506.07254).
auto signum_direction(const OptionValues& values) {
  return [momentum = values.number("momentum"), how = correction_of(values), scaled = values.flag("use_shape_scaling")](
             Builder& b, ValueId g, const ParameterSpec& spec) {
    const ValueId beta = b.hyper("momentum", momentum, kUnit);
    const ValueId m = averaged(b, g, beta, "m", "exp_avg", spec.state);
    const ValueId t = how.correct ? b.step("t") : b.constant(0);
    const ValueId sign = b.op(Op::Sign, {corrected(b, m, g, beta, t, how)}, "update");
    if (!scaled) return Direction{sign, {}};
    const auto sides = static_cast<double>(spec.shape[0] + spec.shape[1]);
    return Direction{b.mul(sign, b.constant(2 / sides), "update_scaled"), {}};
  };
}

/// m / (1 - beta1^t) over sqrt(v / (1 - beta2^t)) + eps, v by lerp of the squares.
auto adam_direction(const OptionValues& values, BiasCorrection how) {
  return [beta1 = values.number("beta1"), beta2 = values.number("beta2"), eps = values.number("eps"), how](
             Builder& b, ValueId g, const ParameterSpec& spec) {
    const ValueId b1 = b.hyper("beta1", beta1, kUnit), b2 = b.hyper("beta2", beta2, kUnit);
    const ValueId m = averaged(b, g, b1, "m", "exp_avg", spec.state);
    const ValueId v = averaged(b, b.mul(g, g, "g_sq"), b2, "v", "exp_avg_sq", spec.state);
    const ValueId t = how.correct ? b.step("t") : b.constant(0);
    const ValueId numerator = corrected(b, m, g, b1, t, how);
    const ValueId second = corrected(b, v, g, b2, t, {how.correct, false});
    const ValueId denominator = b.add(b.sqrt(second, "root"), b.hyper("eps", eps, kNonNegative), "denominator");
    return Direction{b.div(numerator, denominator, "update"), {}};
  };
}

/// m / (sqrt(v) + eps), and the corrections on the learning rate: eps comes before the correction.
auto moonlight_direction(const OptionValues& values) {
  return [beta1 = values.number("beta1"), beta2 = values.number("beta2"), eps = values.number("eps")](
             Builder& b, ValueId g, const ParameterSpec& spec) {
    const ValueId b1 = b.hyper("beta1", beta1, kUnit), b2 = b.hyper("beta2", beta2, kUnit);
    const ValueId m = averaged(b, g, b1, "m", "moment1", spec.state);
    const ValueId v = averaged(b, b.mul(g, g, "g_sq"), b2, "v", "moment2", spec.state);
    const ValueId t = b.step("t"), one = b.constant(1);
    const ValueId correction1 = b.sub(one, b.op(Op::Powi, {b1, t}));
    const ValueId correction2 = b.sub(one, b.op(Op::Powi, {b2, t}));
    const ValueId denominator = b.add(b.sqrt(v, "root"), b.hyper("eps", eps, kNonNegative), "denominator");
    return Direction{b.div(m, denominator, "update"), b.div(b.sqrt(correction2), correction1)};
  };
}

/// torch's fused AdamW: m / (sqrt(v) / sqrt(1 - beta2^t) + eps), and 1 - beta1^t on the learning rate.
auto dion_adamw_direction(const OptionValues& values) {
  return [beta1 = values.number("beta1"), beta2 = values.number("beta2"), eps = values.number("eps")](
             Builder& b, ValueId g, const ParameterSpec& spec) {
    const ValueId b1 = b.hyper("beta1", beta1, kUnit), b2 = b.hyper("beta2", beta2, kUnit);
    const ValueId m = averaged(b, g, b1, "m", "momentum", spec.state);
    const ValueId v = averaged(b, b.mul(g, g, "g_sq"), b2, "v", "variance", spec.state);
    const ValueId t = b.step("t"), one = b.constant(1);
    const ValueId correction1 = b.sub(one, b.op(Op::Powi, {b1, t}));
    const ValueId correction2 = b.sub(one, b.op(Op::Powi, {b2, t}));
    const ValueId root = b.div(b.sqrt(v, "root"), b.sqrt(correction2), "root_corrected");
    const ValueId denominator = b.add(root, b.hyper("eps", eps, kNonNegative), "denominator");
    return Direction{b.div(m, denominator, "update"), b.div(one, correction1)};
  };
}

// ---- emerging ----

std::span<const OptionInfo> emerging_lion_table() {
  static const std::vector<OptionInfo> kTable{lr_option("0.0001", kEmerging),
                                              betas_option("0.9,0.99", kLionBetas, kEmerging),
                                              decay_option("0.01", kEmerging), decay_method_option(kEmerging)};
  return kTable;
}

OptionInfo correct_bias_option() {
  return flag_option("correct_bias", "true", "divide averages by what their start at 0 has taken", kEmerging);
}

OptionInfo nesterov_option() {
  return flag_option("nesterov", "false", "look one step ahead in the first average", kEmerging);
}

std::span<const OptionInfo> emerging_signum_table() {
  static const std::vector<OptionInfo> kTable{
      lr_option("0.001", kEmerging),
      number_option("momentum", "0.9", kUnit, "decay of the average of gradients", kEmerging),
      decay_option("0.01", kEmerging),
      decay_method_option(kEmerging),
      correct_bias_option(),
      nesterov_option(),
      flag_option("use_shape_scaling", "false", "times 2 / (R + C), for R x C matrices", kEmerging)};
  return kTable;
}

std::span<const OptionInfo> emerging_adam_table() {
  static const std::vector<OptionInfo> kTable{lr_option("0.001", kEmerging),
                                              betas_option("0.9,0.999", kMoments, kEmerging),
                                              eps_option("1e-8", kEmerging),
                                              decay_option("0.01", kEmerging),
                                              decay_method_option(kEmerging),
                                              correct_bias_option(),
                                              nesterov_option()};
  return kTable;
}

ElementwiseRule emerging_lion(const OptionValues& values) {
  return {"lion", decay_named(values.choice("weight_decay_method")), lion_direction(values, "exp_avg")};
}
ElementwiseRule emerging_signum(const OptionValues& values) {
  return {"signum", decay_named(values.choice("weight_decay_method")), signum_direction(values)};
}
ElementwiseRule emerging_adam(const OptionValues& values) {
  return {"adam", decay_named(values.choice("weight_decay_method")), adam_direction(values, correction_of(values))};
}

// ---- keller, moonlight, dion ----

std::span<const OptionInfo> keller_adam_table() {
  static const std::vector<OptionInfo> kTable{lr_option("0.0003", kKeller), betas_option("0.9,0.95", kMoments, kKeller),
                                              eps_option("1e-10", kKeller), decay_option("0", kKeller)};
  return kTable;
}

std::span<const OptionInfo> moonlight_adamw_table() {
  static const std::vector<OptionInfo> kTable{
      lr_option("0.001", kMoonlight), also_called(betas_option("0.9,0.95", kMoments, kMoonlight), {"adamw_betas"}),
      also_called(eps_option("1e-8", kMoonlight), {"adamw_eps"}), also_called(decay_option("0.1", kMoonlight), {"wd"})};
  return kTable;
}

std::span<const OptionInfo> dion_adamw_table() {
  static const std::vector<OptionInfo> kTable{lr_option("0.01", kDion), betas_option("0.9,0.95", kMoments, kDion),
                                              also_called(eps_option("1e-8", kDion), {"epsilon"}),
                                              decay_option("0.01", kDion), cautious_option()};
  return kTable;
}

std::span<const OptionInfo> dion_lion_table() {
  static const std::vector<OptionInfo> kTable{lr_option("0.01", kDion), betas_option("0.9,0.95", kLionBetas, kDion),
                                              decay_option("0.01", kDion), cautious_option()};
  return kTable;
}

ElementwiseRule keller_adam(const OptionValues& values) {
  return {"adam", Decay::Rescale, adam_direction(values, {true, false})};
}
ElementwiseRule moonlight_adamw(const OptionValues& values) {
  return {"adamw", Decay::Rescale, moonlight_direction(values)};
}
Decay dion_decay(const OptionValues& values) { return values.flag("cautious_wd") ? Decay::Cautious : Decay::Rescale; }
ElementwiseRule dion_adamw(const OptionValues& values) {
  return {"adamw", dion_decay(values), dion_adamw_direction(values)};
}
ElementwiseRule dion_lion(const OptionValues& values) {
  return {"lion", dion_decay(values), lion_direction(values, "momentum"), true};
}

// ---- recipes ----

template <ElementwiseRule (*kRule)(const OptionValues&)>
Result<Graph> build(const OptionValues& values, const ParameterSpec& spec) {
  return build_elementwise(kRule(values), values, spec);
}

Result<Graph> build_signum(const OptionValues& values, const ParameterSpec& spec) {
  if (values.flag("use_shape_scaling") && spec.shape.size() != 2)
    return with_hint(
        fail(StatusCode::InvalidArgument,
             "signum: use_shape_scaling takes matrices (2 dimensions); this parameter has {}", spec.shape.size()),
        "set use_shape_scaling=false for parameters that are no matrices");
  return build<emerging_signum>(values, spec);
}

PeerLaunches not_counted(const OptionValues&) { return {}; }

}  // namespace

std::vector<Recipe> elementwise_dialects() {
  const auto recipe = [](std::string_view name, std::string_view preset, std::string_view summary,
                         std::string_view follows, std::span<const OptionInfo> (*table)(),
                         Result<Graph> (*make)(const OptionValues&, const ParameterSpec&)) {
    return Recipe{name, summary, follows, table, no_cross_checks, make, not_counted, 0, nullptr, preset};
  };
  constexpr std::string_view kLion = "The sign of an average of gradients", kSignum = kLion;
  constexpr std::string_view kAdam = "Adam with the decay of its dialect";
  return {
      recipe("lion", "emerging", kLion, kEmerging, emerging_lion_table, build<emerging_lion>),
      recipe("lion", "dion", kLion, kDion, dion_lion_table, build<dion_lion>),
      recipe("signum", "emerging", kSignum, kEmerging, emerging_signum_table, build_signum),
      recipe("adam", "emerging", kAdam, kEmerging, emerging_adam_table, build<emerging_adam>),
      recipe("adam", "keller", kAdam, kKeller, keller_adam_table, build<keller_adam>),
      recipe("adamw", "moonlight", kAdam, kMoonlight, moonlight_adamw_table, build<moonlight_adamw>),
      recipe("adamw", "dion", kAdam, kDion, dion_adamw_table, build<dion_adamw>),
  };
}

}  // namespace stepfuse::ir
