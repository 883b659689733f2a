// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The company of Muon in NVIDIA's emerging-optimizers: MOP takes the polar factor of the momentum from its SVD,
// PolarGrad scales what Newton-Schulz gives by the nuclear norm that it implies (Lau et al. 2025), Scion takes
// Frank-Wolfe steps (Pethick et al. 2025). Decay first, momentum by lerp, scale on the update.
#include "ir/optimizers/options.h"
#include "ir/optimizers/orthogonal_rule.h"

namespace stepfuse::ir {

namespace {

constexpr std::string_view kPackage = "emerging-optimizers 0.3.0";
constexpr double kEps = 1e-7;  // the least norm that Newton-Schulz divides by

std::vector<OptionInfo> common_options() {
  return {number_option("lr", "0.0003", kNonNegative, "learning rate", kPackage),
          number_option("momentum", "0.95", kUnit, "decay of the momentum buffer (lerp form)", kPackage)};
}

std::vector<OptionInfo> decaying_options() {
  std::vector<OptionInfo> table = common_options();
  table.push_back(
      number_option("weight_decay", "0.01", kNonNegative, "strength of the decay, before everything else", kPackage));
  table.push_back(decay_method_option(kPackage));
  table.push_back(flag_option("nesterov", "false", "orthogonalise lerp(gradient, buffer, momentum)", kPackage));
  return table;
}

void add_newton_schulz_options(std::vector<OptionInfo>& table, std::string_view precision, double fewest_steps) {
  table.push_back(choice_option("fp32_matmul_prec", precision, {"medium", "high", "highest"},
                                "medium: Newton-Schulz in bf16; else in f32", kPackage));
  table.push_back(choice_option("coefficient_type", "quintic",
                                {"simple", "quintic", "polar_express", "cans", "aol", "deepseekv4"},
                                "coefficients of the iterations", kPackage));
  table.push_back(also_called(
      integer_option("ns_steps", "5", Interval{fewest_steps, 99, false, false}, "Newton-Schulz iterations", kPackage),
      {"num_ns_steps"}));
  table.push_back(
      flag_option("unsafe_ns_steps", "false", "take a step count at which the coefficients do harm", "stepfuse"));
}

std::span<const OptionInfo> mop_table() {
  static const std::vector<OptionInfo> kTable = [] {
    std::vector<OptionInfo> table = decaying_options();
    table.push_back(choice_option("fp32_matmul_prec", "highest", {"medium", "high", "highest"},
                                  "the least precision of its f32 products; ours are f32, which serves each",
                                  kPackage));
    table.push_back(choice_option("scale_mode", "nuclear_norm",
                                  {"nuclear_norm", "shape_scaling", "spectral", "unit_rms_norm"},
                                  "factor on the update of an R x C matrix: the sum of singular values; "
                                  "sqrt(max(1, R/C)); sqrt(max(R, C)); sqrt(R/C)",
                                  kPackage));
    table.push_back(number_option("extra_scale_factor", "1", kFinite, "another factor on the update", kPackage));
    return table;
  }();
  return kTable;
}

std::span<const OptionInfo> polargrad_table() {
  static const std::vector<OptionInfo> kTable = [] {
    std::vector<OptionInfo> table = decaying_options();
    add_newton_schulz_options(table, "highest", 0);
    table.push_back(number_option("extra_scale_factor", "1", kFinite, "another factor on the update", kPackage));
    return table;
  }();
  return kTable;
}

std::span<const OptionInfo> scion_table() {
  static const std::vector<OptionInfo> kTable = [] {
    std::vector<OptionInfo> table = common_options();
    add_newton_schulz_options(table, "medium", 1);
    table.push_back(number_option("spectral_radius", "1", kFinite, "of the ball that the steps stay in", kPackage));
    return table;
  }();
  return kTable;
}

ValueId wide(Builder& b, ValueId x) {
  const DType dtype = math_dtype(b.dtype(x));
  return dtype == b.dtype(x) ? x : b.op(Op::Cast, {x}, "wide", dtype);
}

/// U V^T of the SVD; times the sum of the singular values where that is the scale.
ValueId polar_factor(Builder& b, ValueId direction, bool by_nuclear_norm) {
  const ValueId x = wide(b, direction);
  const int64_t rows = b.shape(x).from_end(1).value(), cols = b.shape(x).from_end(0).value();
  const ValueId triples = b.op(Op::Svd, {x}, "svd");
  const ValueId u = b.slice(triples, {0, 0, rows}, "left");
  const ValueId v = b.slice(triples, {0, rows + 1, rows + 1 + cols}, "right");
  const ValueId polar = b.matmul(u, v, {.trans_b = true}, "polar", b.dtype(x));
  if (!by_nuclear_norm) return polar;
  const ValueId values = b.slice(triples, {0, rows, rows + 1}, "singular_values");
  return b.mul(polar, b.reduce(Op::Sum, values, Axis::Matrix, "nuclear_norm"), "polar_scaled");
}

NewtonSchulz iterations(const OptionValues& values) {
  const auto steps = static_cast<size_t>(values.number("ns_steps"));
  return {.triples = triples_of(coefficient_set(values.choice("coefficient_type")), steps),
          .dtype = values.choice("fp32_matmul_prec") == "medium" ? DType::BF16 : DType::F32,
          .norm_dtype = DType::F32};
}

OrthogonalRule rule_of(std::string_view name) {
  OrthogonalRule rule{.name = name};
  rule.update_dtype = DType::F32;
  rule.scales_rate = false;
  rule.decay = Decay::Decoupled;
  return rule;
}

OrthogonalRule mop_rule(const OptionValues& values) {
  OrthogonalRule rule = rule_of("mop");
  const std::string_view mode = values.choice("scale_mode");
  const bool by_nuclear_norm = mode == "nuclear_norm";
  rule.orthogonalise = [=](Builder& b, ValueId direction) { return polar_factor(b, direction, by_nuclear_norm); };
  rule.nesterov = values.flag("nesterov");
  rule.update_dtype = {};
  rule.scale = by_nuclear_norm ? ScaleMode::None : scale_mode_named(mode);
  rule.extra_scale = values.number("extra_scale_factor");
  rule.decay = decay_named(values.choice("weight_decay_method"));
  return rule;
}

/// Were the result the polar factor O, the sum of O and the direction's products would be the nuclear norm.
OrthogonalRule polargrad_rule(const OptionValues& values) {
  OrthogonalRule rule = rule_of("polargrad");
  rule.orthogonalise = [how = iterations(values)](Builder& b, ValueId direction) {
    const ValueId x = wide(b, newton_schulz(b, direction, b.constant(kEps), how));
    const ValueId products = b.mul(x, direction, "products");
    return b.mul(x, b.reduce(Op::Sum, products, Axis::Matrix, "nuclear_norm"), "polar_scaled");
  };
  rule.nesterov = values.flag("nesterov");
  rule.extra_scale = values.number("extra_scale_factor");
  rule.decay = decay_named(values.choice("weight_decay_method"));
  return rule;
}

/// A weight decay of 1, which no option changes.
OrthogonalRule scion_rule(const OptionValues& values) {
  OrthogonalRule rule = rule_of("scion");
  rule.orthogonalise = [how = iterations(values)](Builder& b, ValueId direction) {
    return newton_schulz(b, direction, b.constant(kEps), how);
  };
  rule.scale = ScaleMode::UnitRms;
  rule.extra_scale = values.number("spectral_radius");
  return rule;
}

Outcome validate_steps(std::string_view recipe, const OptionValues& values) {
  const auto steps = static_cast<size_t>(values.number("ns_steps"));
  if (steps == 0 || values.flag("unsafe_ns_steps")) return {};
  return check_response(recipe, coefficient_set(values.choice("coefficient_type")), steps);
}

Outcome validate_polargrad(const OptionValues& values) { return validate_steps("polargrad", values); }
Outcome validate_scion(const OptionValues& values) { return validate_steps("scion", values); }

/// The package's Newton-Schulz takes f32 only, and so does torch's SVD of what is narrower.
template <OrthogonalRule (*kRule)(const OptionValues&)>
Result<Graph> build(const OptionValues& values, const ParameterSpec& spec) {
  const OrthogonalRule rule = kRule(values);
  STEPFUSE_TRY(check_emerging_types(rule.name, spec));
  return build_orthogonal(rule, values, spec);
}

// As TorchDispatchMode counts them on 0.3.0 with torch 2.15.0.

/// add_ for the decay, lerp_, lerp, the SVD, mm, sum, mul, mul and add_.
PeerLaunches peer_mop(const OptionValues& values) {
  const int64_t optional = (values.number("weight_decay") != 0 ? 1 : 0) + (values.flag("nesterov") ? 1 : 0) +
                           (values.choice("scale_mode") == "nuclear_norm" ? 1 : 0);
  return {"emerging_optimizers MOP", 4 + optional, 1, 1};
}

/// Norm, clamp and division, and two casts around a bf16 iteration.
int64_t around_newton_schulz(const OptionValues& values) {
  return values.choice("fp32_matmul_prec") == "medium" ? 5 : 3;
}

int64_t products_of(const OptionValues& values) { return 3 * static_cast<int64_t>(values.number("ns_steps")); }

/// Besides: add_ for the decay, lerp_, lerp, mul, sum, mul, mul and add_.
PeerLaunches peer_polargrad(const OptionValues& values) {
  const int64_t optional = (values.number("weight_decay") != 0 ? 1 : 0) + (values.flag("nesterov") ? 1 : 0);
  return {"emerging_optimizers PolarGrad", 6 + optional + around_newton_schulz(values), products_of(values)};
}

/// Besides: add_ for the decay, lerp_, mul, mul and add_.
PeerLaunches peer_scion(const OptionValues& values) {
  return {"emerging_optimizers Scion", 5 + around_newton_schulz(values), products_of(values)};
}

}  // namespace

std::vector<Recipe> emerging_polar_dialects() {
  return {{"mop", "Momentum orthogonalised by polar decomposition, for matrices", kPackage, mop_table, no_cross_checks,
           build<mop_rule>, peer_mop, 2, nullptr, "emerging"},
          {"polargrad", "Muon scaled by the nuclear norm of its momentum, for matrices", kPackage, polargrad_table,
           validate_polargrad, build<polargrad_rule>, peer_polargrad, 2, nullptr, "emerging"},
          {"scion", "Frank-Wolfe steps in a spectral ball, for matrices", kPackage, scion_table, validate_scion,
           build<scion_rule>, peer_scion, 2, nullptr, "emerging"}};
}

}  // namespace stepfuse::ir
