// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Muon as other code than torch and emerging-optimizers has it. keller: KellerJordan/Muon. moonlight:
// MoonshotAI/Moonlight, examples/toy_train.py. dion: microsoft/dion. gns: Dao-AILab/gram-newton-schulz.
#include "ir/optimizers/options.h"
#include "ir/optimizers/orthogonal_rule.h"
#include "ir/optimizers/second_moment.h"

namespace stepfuse::ir {

namespace {

constexpr std::string_view kKeller = "KellerJordan/Muon 2025-11";
constexpr std::string_view kMoonlight = "Moonlight, examples/toy_train.py";
constexpr std::string_view kDion = "dion 2026-08";
constexpr std::string_view kGns = "gram-newton-schulz 0.1.6";
constexpr Interval kSteps{1, 99, false, false};

/// Newton-Schulz whose eps is not the user's.
std::function<ValueId(Builder&, ValueId)> with_fixed_eps(NewtonSchulz how, double eps) {
  return [how = std::move(how), eps](Builder& b, ValueId direction) {
    return newton_schulz(b, direction, b.constant(eps), how);
  };
}

std::function<ValueId(Builder&, ValueId)> with_live_eps(NewtonSchulz how, const OptionValues& values) {
  return [how = std::move(how), eps = values.number("eps")](Builder& b, ValueId direction) {
    return newton_schulz(b, direction, b.hyper("eps", eps, kNonNegative), how);
  };
}

PeerLaunches not_counted(const OptionValues&) { return {}; }

// ---- keller ----

std::span<const OptionInfo> keller_table() {
  static const std::vector<OptionInfo> kTable{
      number_option("lr", "0.02", kNonNegative, "learning rate", kKeller),
      number_option("momentum", "0.95", kUnit, "decay of the momentum buffer (lerp form, Nesterov always)", kKeller),
      number_option("weight_decay", "0", kNonNegative, "decoupled, with the learning rate as given", kKeller)};
  return kTable;
}

/// The scale comes from the gradient's own last two dimensions and rounds the update once more.
OrthogonalRule keller_rule(const OptionValues&) {
  OrthogonalRule rule{.name = "muon", .nesterov = true, .takes_batches = true};
  rule.orthogonalise = with_fixed_eps(
      {.triples = triples_of(coefficient_set("simple"), 5), .guard = NormGuard::Add, .rounding = NsRounding::PerOp},
      1e-7);
  rule.scale = ScaleMode::ShapeScaling;
  rule.scales_rate = false;
  return rule;
}

// ---- moonlight ----

std::span<const OptionInfo> moonlight_table() {
  static const std::vector<OptionInfo> kTable{
      number_option("lr", "0.001", kNonNegative, "learning rate, times 0.2 sqrt(max(R, C))", kMoonlight),
      number_option("momentum", "0.95", kUnit, "decay of the momentum buffer (sum form)", kMoonlight),
      also_called(number_option("weight_decay", "0.1", kNonNegative, "decoupled, with the unadjusted learning rate",
                                kMoonlight),
                  {"wd"}),
      flag_option("nesterov", "true", "orthogonalise gradient + momentum * buffer", kMoonlight),
      integer_option("ns_steps", "5", kSteps, "Newton-Schulz iterations", kMoonlight)};
  return kTable;
}

OrthogonalRule moonlight_rule(const OptionValues& values) {
  OrthogonalRule rule{.name = "muon", .momentum = MomentumForm::Sum, .nesterov = values.flag("nesterov")};
  const auto steps = static_cast<size_t>(values.number("ns_steps"));
  rule.orthogonalise = with_fixed_eps(
      {.triples = triples_of(coefficient_set("simple"), steps), .guard = NormGuard::Add, .rounding = NsRounding::PerOp},
      1e-7);
  rule.scale = ScaleMode::MatchRmsAdamw;
  return rule;
}

// ---- dion ----

std::vector<OptionInfo> dion_options() {
  return {number_option("lr", "0.01", kNonNegative, "learning rate", kDion),
          also_called(number_option("momentum", "0.95", kNonNegative, "decay of the momentum buffer (sum form)", kDion),
                      {"mu"}),
          number_option("weight_decay", "0.01", kNonNegative, "decoupled, with the unadjusted learning rate", kDion),
          flag_option("cautious_wd", "false", "decay only where parameter and update agree in sign", kDion),
          also_called(number_option("eps", "1e-8", kNonNegative, "added to the norm", kDion), {"epsilon"}),
          flag_option("nesterov", "false", "orthogonalise gradient + momentum * buffer", kDion),
          choice_option("adjust_lr", "spectral_norm", {"spectral_norm", "rms_norm", "none"},
                        "factor on lr for an R x C matrix: sqrt(R/C); 0.2 sqrt(max(R, C)); 1", kDion),
          flag_option("use_polar_express", "true", "coefficients of Polar Express; else the quintic ones", kDion)};
}

std::span<const OptionInfo> dion_table() {
  static const std::vector<OptionInfo> kTable = dion_options();
  return kTable;
}

std::span<const OptionInfo> dion_normuon_table() {
  static const std::vector<OptionInfo> kTable = [] {
    std::vector<OptionInfo> table = dion_options();
    table.push_back(also_called(number_option("beta2", "0.95", kUnit, "decay of the second moment of rows", kDion),
                                {"muon_beta2"}));
    return table;
  }();
  return kTable;
}

OrthogonalRule dion_rule(const OptionValues& values) {
  OrthogonalRule rule{.name = "muon",
                      .buffer_key = "momentum",
                      .momentum = MomentumForm::Sum,
                      .nesterov = values.flag("nesterov"),
                      .takes_batches = true};
  const bool polar_express = values.flag("use_polar_express");
  NewtonSchulz how{.triples = triples_of(coefficient_set(polar_express ? "polar_express_dion" : "quintic"), 5),
                   .guard = NormGuard::Add,
                   .rounding = NsRounding::PerOpProductFirst};
  if (polar_express) how.norm_factor = 1.02;
  rule.orthogonalise = with_live_eps(how, values);
  rule.scale = scale_mode_named(values.choice("adjust_lr"));
  rule.rounds_step = true;
  rule.decay = values.flag("cautious_wd") ? Decay::Cautious : Decay::Rescale;
  return rule;
}

OrthogonalRule dion_normuon_rule(const OptionValues& values) {
  OrthogonalRule rule = dion_rule(values);
  rule.name = "normuon";
  rule.adapt = normuon_by_row(values.number("beta2"));
  return rule;
}

// ---- gns ----

std::span<const OptionInfo> gns_table() {
  static const std::vector<OptionInfo> kTable{
      number_option("lr", "0.001", kNonNegative, "learning rate", kGns),
      number_option("momentum", "0.95", kUnit, "decay of the momentum buffer (sum form)", kGns),
      number_option("weight_decay", "0.1", kNonNegative, "decoupled, with the unadjusted learning rate", kGns),
      flag_option("nesterov", "true", "orthogonalise gradient + momentum * buffer", kGns),
      choice_option("adjust_lr", "rms_norm", {"rms_norm", "spectral_norm", "none"},
                    "factor on lr for an R x C matrix: 0.2 sqrt(max(R, C)); sqrt(R/C); 1", kGns),
      choice_option("ns_coefficients_preset", "POLAR_EXPRESS_COEFFICIENTS",
                    {"POLAR_EXPRESS_COEFFICIENTS", "YOU_COEFFICIENTS"}, "coefficients of the five iterations", kGns),
      also_called(number_option("eps", "1e-7", kNonNegative, "added to the norm", kGns), {"ns_epsilon"})};
  return kTable;
}

/// The direction becomes bf16, its division by the norm f32, the iteration fp16, and the result bf16 again.
OrthogonalRule gns_rule(const OptionValues& values) {
  OrthogonalRule rule{.name = "muon",
                      .buffer_key = "momentum",
                      .momentum = MomentumForm::Sum,
                      .nesterov = values.flag("nesterov"),
                      .takes_batches = true};
  const bool you = values.choice("ns_coefficients_preset") == "YOU_COEFFICIENTS";
  const NewtonSchulz how{.triples = triples_of(coefficient_set(you ? "quintic" : "polar_express_gns"), 5),
                         .dtype = DType::F16,
                         .norm_dtype = DType::F32,
                         .guard = NormGuard::Add};
  rule.orthogonalise = [how, eps = values.number("eps")](Builder& b, ValueId direction) {
    if (b.dtype(direction) != DType::BF16) direction = b.op(Op::Cast, {direction}, "direction_narrow", DType::BF16);
    return newton_schulz(b, direction, b.hyper("eps", eps, kNonNegative), how);
  };
  rule.update_dtype = DType::BF16;
  rule.scale = scale_mode_named(values.choice("adjust_lr"));
  rule.rounds_step = true;
  return rule;
}

template <OrthogonalRule (*kRule)(const OptionValues&)>
Recipe dialect(std::string_view name, std::string_view preset, std::string_view summary, std::string_view follows,
               std::span<const OptionInfo> (*table)(), size_t dimensions) {
  const auto build = [](const OptionValues& values, const ParameterSpec& spec) {
    return build_orthogonal(kRule(values), values, spec);
  };
  const auto scale = [](const OptionValues& values, const std::vector<int64_t>& shape) {
    const OrthogonalRule rule = kRule(values);
    return rule.scales_rate ? total_scale(rule, shape) : 1;
  };
  return {name, summary, follows, table, no_cross_checks, build, not_counted, dimensions, scale, preset};
}

}  // namespace

std::vector<Recipe> muon_dialects() {
  constexpr std::string_view kMuon = "Momentum orthogonalised by Newton-Schulz, for matrices";
  constexpr std::string_view kNorMuon = "Muon whose update is normalised row by row";
  return {dialect<keller_rule>("muon", "keller", kMuon, kKeller, keller_table, 0),
          dialect<moonlight_rule>("muon", "moonlight", kMuon, kMoonlight, moonlight_table, 2),
          dialect<dion_rule>("muon", "dion", kMuon, kDion, dion_table, 0),
          dialect<gns_rule>("muon", "gns", kMuon, kGns, gns_table, 0),
          dialect<dion_normuon_rule>("normuon", "dion", kNorMuon, kDion, dion_normuon_table, 0)};
}

}  // namespace stepfuse::ir
