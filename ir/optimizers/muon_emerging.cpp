// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Muon and AdaptiveMuon of NVIDIA's emerging-optimizers: decay first, momentum by lerp, the norm and everything after
// Newton-Schulz in f32, scale on the update. Megatron-Core and verl configure the same code by other names and
// defaults.
#include "ir/optimizers/options.h"
#include "ir/optimizers/orthogonal_rule.h"
#include "ir/optimizers/second_moment.h"

#include <array>
#include <cmath>
#include <utility>

namespace stepfuse::ir {

namespace {

constexpr std::string_view kPackage = "emerging-optimizers 0.3.0";
constexpr std::string_view kMegatron = "megatron-core 0.19.2, OptimizerConfig";
constexpr std::string_view kVerl = "verl 0.9.1, on megatron-core";
constexpr Interval kSteps{1, 99, false, false};

std::vector<OptionInfo> newton_schulz_options(std::string_view source) {
  return {
      choice_option("fp32_matmul_prec", "medium", {"medium", "high", "highest"},
                    "medium: Newton-Schulz in bf16; else in f32", source),
      choice_option("coefficient_type", "quintic",
                    {"simple", "quintic", "polar_express", "cans", "aol", "deepseekv4", "cubic5", "custom"},
                    "coefficients of the iterations", source),
      list_option("custom_coefficient_sets", "a, b, c of each iteration in turn, for coefficient_type=custom", source),
      also_called(integer_option("ns_steps", "5", kSteps, "Newton-Schulz iterations", source), {"num_ns_steps"}),
      flag_option("unsafe_ns_steps", "false", "take a step count at which the coefficients do harm", "stepfuse"),
      choice_option("scale_mode", "spectral", {"spectral", "unit_rms_norm", "shape_scaling"},
                    "factor on the update of an R x C matrix: sqrt(max(R, C)); sqrt(R/C); sqrt(max(1, R/C))", source),
      number_option("extra_scale_factor", "1", kFinite, "multiplies the update after the scale mode", source),
      choice_option("preset_version", "0.3", {"0.3", "0.4"},
                    "of emerging-optimizers: 0.4 clamps the norm at 1e-15 instead of 1e-7, and has cubic5", source)};
}

std::vector<OptionInfo> emerging_options() {
  std::vector<OptionInfo> table{
      number_option("lr", "0.0003", kNonNegative, "learning rate", kPackage),
      number_option("momentum", "0.95", kUnit, "decay of the momentum buffer (lerp form)", kPackage),
      number_option("weight_decay", "0.01", kNonNegative, "strength of the decay, before everything else", kPackage),
      flag_option("nesterov", "false", "orthogonalise lerp(gradient, buffer, momentum)", kPackage),
      decay_method_option(kPackage)};
  for (OptionInfo& option : newton_schulz_options(kPackage)) table.push_back(std::move(option));
  return table;
}

std::span<const OptionInfo> emerging_table() {
  static const std::vector<OptionInfo> kTable = [] {
    std::vector<OptionInfo> table = emerging_options();
    table.push_back(flag_option("use_syrk", "false", "only false: the compiler chooses symmetric products", kPackage));
    return table;
  }();
  return kTable;
}

std::span<const OptionInfo> adaptive_table() {
  static const std::vector<OptionInfo> kTable = [] {
    std::vector<OptionInfo> table = emerging_options();
    table.push_back(choice_option("moment2_method", "adamuon", {"adamuon", "normuon", "namo"},
                                  "second moment of the update: of elements, of rows or columns, one per matrix",
                                  kPackage));
    table.push_back(number_option("beta2", "0.95", kUnit, "decay of the second moment", kPackage));
    table.push_back(
        number_option("eps", "1e-8", kNonNegative, "added to, or least value of, the denominator", kPackage));
    return table;
  }();
  return kTable;
}

/// Megatron's configuration calls them muon_...; the constructors, and we, leave that out.
void add_config_names(std::vector<OptionInfo>& table) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNames{
      {{"momentum", "muon_momentum"},
       {"nesterov", "muon_nesterov"},
       {"fp32_matmul_prec", "muon_fp32_matmul_prec"},
       {"coefficient_type", "muon_coefficient_type"},
       {"ns_steps", "muon_num_ns_steps"},
       {"scale_mode", "muon_scale_mode"},
       {"extra_scale_factor", "muon_extra_scale_factor"},
       {"tp_mode", "muon_tp_mode"}}};
  for (OptionInfo& option : table)
    for (const auto& [ours, theirs] : kNames)
      if (option.name == ours) option.aliases.push_back(theirs);
}

std::vector<OptionInfo> megatron_options(std::string_view source) {
  std::vector<OptionInfo> table{
      number_option("lr", "0.0003", kNonNegative, "learning rate", source),
      number_option("momentum", "0.95", kUnit, "decay of the momentum buffer (lerp form)", source),
      number_option("weight_decay", "0.01", kNonNegative, "strength of the decay, before everything else", source),
      flag_option("nesterov", "false", "orthogonalise lerp(gradient, buffer, momentum)", source),
      flag_option("use_decoupled_weight_decay", "true", "false: weight decay is added to the gradient (L2)",
                  "megatron-core 0.19.2, TensorParallelMuon; the config's decoupled_weight_decay does not reach it"),
      choice_option("tp_mode", "blockwise", {"blockwise", "duplicated"},
                    "the same on one rank; distributed needs distribution, which is not yet there", source)};
  for (OptionInfo& option : newton_schulz_options(source)) table.push_back(std::move(option));
  add_config_names(table);
  return table;
}

std::span<const OptionInfo> megatron_table() {
  static const std::vector<OptionInfo> kTable = megatron_options(kMegatron);
  return kTable;
}

std::span<const OptionInfo> verl_table() {
  static const std::vector<OptionInfo> kTable = [] {
    std::vector<OptionInfo> table = megatron_options(kVerl);
    table.push_back(also_called(flag_option("match_adamw_update_rms", "false",
                                            "an extra scale of sqrt((1 - beta1) / (1 + beta1)), which makes updates as "
                                            "large as those of AdamW with that beta1",
                                            kVerl),
                                {"muon_match_adamw_update_rms"}));
    table.push_back(betas_option("0.9,0.999", "beta1 is for match_adamw_update_rms", kVerl));
    return table;
  }();
  return kTable;
}

NewtonSchulz iterations(const OptionValues& values) {
  const auto steps = static_cast<size_t>(values.number("ns_steps"));
  NewtonSchulz how{.norm_dtype = DType::F32};
  if (values.choice("coefficient_type") == "custom") {
    const std::vector<double> numbers = values.list("custom_coefficient_sets");
    const size_t count = numbers.size() / 3;
    for (size_t i = 0; i < steps; ++i) {
      const size_t at = i % count * 3;
      how.triples.push_back({numbers[at], numbers[at + 1], numbers[at + 2]});
    }
  } else {
    how.triples = triples_of(coefficient_set(values.choice("coefficient_type")), steps);
  }
  how.dtype = values.choice("fp32_matmul_prec") == "medium" ? DType::BF16 : DType::F32;
  return how;
}

/// All but the decay.
OrthogonalRule emerging_parts(const OptionValues& values) {
  OrthogonalRule rule{.name = "muon", .nesterov = values.flag("nesterov")};
  const double eps = values.choice("preset_version") == "0.3" ? 1e-7 : 1e-15;
  rule.orthogonalise = [how = iterations(values), eps](Builder& b, ValueId direction) {
    return newton_schulz(b, direction, b.constant(eps), how);
  };
  rule.update_dtype = DType::F32;
  rule.scale = scale_mode_named(values.choice("scale_mode"));
  rule.extra_scale = values.number("extra_scale_factor");
  rule.scales_rate = false;
  return rule;
}

OrthogonalRule emerging_rule(const OptionValues& values) {
  OrthogonalRule rule = emerging_parts(values);
  rule.decay = decay_named(values.choice("weight_decay_method"));
  return rule;
}

OrthogonalRule megatron_rule(const OptionValues& values) {
  OrthogonalRule rule = emerging_parts(values);
  rule.decay = values.flag("use_decoupled_weight_decay") ? Decay::Decoupled : Decay::L2;
  return rule;
}

OrthogonalRule verl_rule(const OptionValues& values) {
  OrthogonalRule rule = megatron_rule(values);
  const double beta1 = values.number("beta1");
  if (values.flag("match_adamw_update_rms")) rule.extra_scale = std::sqrt((1 - beta1) / (1 + beta1));
  return rule;
}

OrthogonalRule adaptive_rule(const OptionValues& values) {
  OrthogonalRule rule = emerging_rule(values);
  rule.name = "adaptive_muon";
  const double beta2 = values.number("beta2"), eps = values.number("eps");
  const std::string_view method = values.choice("moment2_method");
  rule.adapt = method == "adamuon"   ? adamuon(beta2, eps)
               : method == "normuon" ? normuon_by_shape(beta2, eps)
                                     : namo(beta2, eps);
  return rule;
}

Outcome validate_coefficients(std::string_view recipe, const OptionValues& values) {
  const std::string_view type = values.choice("coefficient_type");
  const std::vector<double> custom = values.list("custom_coefficient_sets");
  if (type == "custom") {
    if (!custom.empty() && custom.size() % 3 == 0) return {};
    return with_hint(fail(StatusCode::InvalidArgument,
                          "{}: coefficient_type=custom needs custom_coefficient_sets with a, b, c of each iteration; "
                          "it has {} numbers",
                          recipe, custom.size()),
                     "write for example custom_coefficient_sets=3.4445,-4.775,2.0315,2,-1.5,0.5");
  }
  if (!custom.empty())
    return with_hint(fail(StatusCode::InvalidArgument,
                          "{}: custom_coefficient_sets has no effect with coefficient_type={}", recipe, type),
                     "set coefficient_type=custom, or leave the sets out");
  if (type == "cubic5" && values.choice("preset_version") == "0.3")
    return with_hint(
        fail(StatusCode::InvalidArgument, "{}: emerging-optimizers 0.3 has no coefficient_type cubic5", recipe),
        "set preset_version=0.4");
  if (values.flag("unsafe_ns_steps")) return {};
  return check_response(recipe, coefficient_set(type), static_cast<size_t>(values.number("ns_steps")));
}

Outcome validate_muon(const OptionValues& values) {
  if (values.flag("use_syrk"))
    return with_hint(fail(StatusCode::InvalidArgument, "muon: use_syrk=true has no effect"),
                     "the compiler chooses symmetric products; `stepfuse explain` shows where");
  return validate_coefficients("muon", values);
}

Outcome validate_megatron(const OptionValues& values) { return validate_coefficients("muon", values); }

Outcome validate_verl(const OptionValues& values) {
  if (values.flag("match_adamw_update_rms") && values.number("extra_scale_factor") != 1)
    return with_hint(fail(StatusCode::InvalidArgument,
                          "muon: match_adamw_update_rms and extra_scale_factor={} both set the extra scale",
                          values.text("extra_scale_factor")),
                     "leave one of them out");
  return validate_megatron(values);
}

Outcome validate_adaptive(const OptionValues& values) {
  if (values.choice("moment2_method") == "namo" && values.choice("weight_decay_method") == "l2")
    return with_hint(
        fail(StatusCode::InvalidArgument, "adaptive_muon: moment2_method=namo does not go with weight_decay_method=l2"),
        "take another decay method: namo averages the norm of the gradient as it came");
  return validate_coefficients("adaptive_muon", values);
}

template <OrthogonalRule (*kRule)(const OptionValues&)>
Result<Graph> build(const OptionValues& values, const ParameterSpec& spec) {
  const OrthogonalRule rule = kRule(values);
  STEPFUSE_TRY(check_emerging_types(rule.name, spec));
  return build_orthogonal(rule, values, spec);
}

PeerLaunches not_counted(const OptionValues&) { return {}; }

}  // namespace

std::vector<Recipe> emerging_muon_dialects() {
  return {{"muon", "Momentum orthogonalised by Newton-Schulz, for matrices", kPackage, emerging_table, validate_muon,
           build<emerging_rule>, not_counted, 2, nullptr, "emerging"},
          {"muon", "Momentum orthogonalised by Newton-Schulz, for matrices", kMegatron, megatron_table,
           validate_megatron, build<megatron_rule>, not_counted, 2, nullptr, "megatron"},
          {"muon", "Momentum orthogonalised by Newton-Schulz, for matrices", kVerl, verl_table, validate_verl,
           build<verl_rule>, not_counted, 2, nullptr, "verl"},
          {"adaptive_muon", "Muon with a second moment of the orthogonalised update", kPackage, adaptive_table,
           validate_adaptive, build<adaptive_rule>, not_counted, 2, nullptr, "emerging"}};
}

}  // namespace stepfuse::ir
