// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Muon in torch 2.15.0's dialect (torch/optim/_muon.py): momentum by lerp, Newton-Schulz in bf16 on the matrix divided
// by max(norm, eps), decay with the unadjusted learning rate, then the update. Jordan et al. 2024.
#include "ir/optimizers/options.h"
#include "ir/optimizers/orthogonal_rule.h"

namespace stepfuse::ir {

namespace {

constexpr std::string_view kTorch = "torch.optim.Muon 2.15.0";

OptionInfo coefficients_option() {
  return {"ns_coefficients",
          OptionKind::Numbers,
          "3.4445,-4.775,2.0315",
          kFinite,
          {},
          {"ns_a", "ns_b", "ns_c"},
          "a, b, c of X' = a X + (b A + c A A) X with A = X X^T",
          kTorch};
}

std::span<const OptionInfo> muon_table() {
  static const std::vector<OptionInfo> kTable{
      number_option("lr", "0.001", kNonNegative, "learning rate", kTorch),
      number_option("momentum", "0.95", kUnit, "decay of the momentum buffer (lerp form)", kTorch),
      number_option("weight_decay", "0.1", kNonNegative, "decoupled, with the unadjusted learning rate", kTorch),
      flag_option("nesterov", "true", "orthogonalise lerp(gradient, buffer, momentum)", kTorch),
      coefficients_option(),
      number_option("eps", "1e-7", kNonNegative, "smallest norm to divide by", kTorch),
      integer_option("ns_steps", "5", Interval{1, 99, false, false}, "Newton-Schulz iterations", kTorch),
      choice_option("adjust_lr_fn", "original", {"original", "match_rms_adamw", "spectral_unclamped"},
                    "factor on lr for an R x C matrix: sqrt(max(1, R/C)); 0.2 sqrt(max(R, C)); sqrt(R/C)", kTorch),
      choice_option("ns_dtype", "bf16", {"bf16", "f32"}, "element type of the iteration", "stepfuse; torch is bf16")};
  return kTable;
}

OrthogonalRule muon_rule(const OptionValues& values) {
  NewtonSchulz how;
  how.triples.assign(static_cast<size_t>(values.number("ns_steps")),
                     {values.number("ns_a"), values.number("ns_b"), values.number("ns_c")});
  how.dtype = how.norm_dtype = values.choice("ns_dtype") == "f32" ? DType::F32 : DType::BF16;
  OrthogonalRule rule{.name = "muon", .nesterov = values.flag("nesterov")};
  rule.orthogonalise = [how, eps = values.number("eps")](Builder& b, ValueId direction) {
    return newton_schulz(b, direction, b.hyper("eps", eps, kNonNegative), how);
  };
  rule.scale = scale_mode_named(values.choice("adjust_lr_fn"));
  return rule;
}

double muon_lr_scale(const OptionValues& values, const std::vector<int64_t>& shape) {
  return total_scale(muon_rule(values), shape);
}

Result<Graph> build_muon(const OptionValues& values, const ParameterSpec& spec) {
  return build_orthogonal(muon_rule(values), values, spec);
}

/// lerp_, lerp, cast, norm, clamp, div_, mul_, add_ and 3 products per iteration (TorchDispatchMode on 2.15.0).
PeerLaunches peer_muon(const OptionValues& values) {
  return {"torch.optim.Muon", values.flag("nesterov") ? 8 : 7, 3 * static_cast<int64_t>(values.number("ns_steps"))};
}

}  // namespace

const Recipe kMuonRecipe{"muon",
                         "Momentum orthogonalised by Newton-Schulz, for matrices",
                         "torch.optim.Muon 2.15.0",
                         muon_table,
                         no_cross_checks,
                         build_muon,
                         peer_muon,
                         2,
                         muon_lr_scale};

}  // namespace stepfuse::ir
