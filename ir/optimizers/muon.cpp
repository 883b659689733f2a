// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Muon in torch 2.15.0's dialect (torch/optim/_muon.py): momentum by lerp, Newton-Schulz in bf16 on the matrix divided
// by max(norm, eps), decay with the unadjusted learning rate, then the update. Jordan et al. 2024.
#include "ir/builder.h"
#include "ir/optimizers/recipe.h"

#include <algorithm>
#include <cmath>

namespace stepfuse::ir {

namespace {

constexpr std::string_view kTorch = "torch.optim.Muon 2.15.0";

std::span<const OptionInfo> muon_table() {
  static const std::vector<OptionInfo> kTable{
      {"lr", OptionKind::Number, "0.001", kNonNegative, {}, {}, "learning rate", kTorch},
      {"momentum", OptionKind::Number, "0.95", kUnit, {}, {}, "decay of the momentum buffer (lerp form)", kTorch},
      {"weight_decay",
       OptionKind::Number,
       "0.1",
       kNonNegative,
       {},
       {},
       "decoupled, with the unadjusted learning rate",
       kTorch},
      {"nesterov", OptionKind::Bool, "true", {}, {}, {}, "orthogonalise lerp(gradient, buffer, momentum)", kTorch},
      {"ns_coefficients",
       OptionKind::Numbers,
       "3.4445,-4.775,2.0315",
       kFinite,
       {},
       {"ns_a", "ns_b", "ns_c"},
       "a, b, c of X' = a X + (b A + c A A) X with A = X X^T",
       kTorch},
      {"eps", OptionKind::Number, "1e-7", kNonNegative, {}, {}, "smallest norm to divide by", kTorch},
      {"ns_steps", OptionKind::Integer, "5", Interval{1, 99, false, false}, {}, {}, "Newton-Schulz iterations", kTorch},
      {"adjust_lr_fn",
       OptionKind::Choice,
       "original",
       {},
       {"original", "match_rms_adamw", "spectral_unclamped"},
       {},
       "factor on lr for an R x C matrix: sqrt(max(1, R/C)); 0.2 sqrt(max(R, C)); sqrt(R/C)",
       kTorch},
      {"ns_dtype",
       OptionKind::Choice,
       "bf16",
       {},
       {"bf16", "f32"},
       {},
       "element type of the iteration",
       "stepfuse; torch is bf16"}};
  return kTable;
}

Outcome no_cross_checks(const OptionValues&) { return {}; }

double muon_lr_scale(const OptionValues& values, const std::vector<int64_t>& shape) {
  const std::string_view rule = values.choice("adjust_lr_fn");
  const double r = static_cast<double>(shape[0]);
  const double c = static_cast<double>(shape[1]);
  if (rule == "match_rms_adamw") return 0.2 * std::sqrt(std::max(r, c));
  if (rule == "spectral_unclamped") return std::sqrt(r / c);
  return std::sqrt(std::max(1.0, r / c));
}

struct Coefficients {
  ValueId a, b, c;
};

/// One iteration on a wide matrix. Products and scalings are f32; each assignment (A, B, X) is rounded once to the
/// type of the iteration, as addmm rounds.
ValueId newton_schulz_step(Builder& b, ValueId x, const Coefficients& coefficients, DType dtype) {
  const ValueId gram = b.matmul(x, x, {.trans_b = true}, "gram", dtype);
  const ValueId gram_sq = b.matmul(gram, gram, {}, "gram_sq", DType::F32);
  const ValueId b_gram = b.op(Op::Mul, {gram, coefficients.b}, "b_gram", DType::F32);
  const ValueId c_gram_sq = b.mul(gram_sq, coefficients.c, "c_gram_sq");
  const ValueId poly = b.op(Op::Add, {b_gram, c_gram_sq}, "poly", dtype);
  const ValueId poly_x = b.matmul(poly, x, {}, "poly_x", DType::F32);
  const ValueId a_x = b.op(Op::Mul, {x, coefficients.a}, "a_x", DType::F32);
  return b.op(Op::Add, {a_x, poly_x}, "x", dtype);
}

Result<Graph> build_muon(const OptionValues& values, const ParameterSpec& spec) {
  if (spec.shape.size() != kMuonRecipe.dimensions)
    return with_hint(fail(StatusCode::InvalidArgument, "muon takes matrices (2 dimensions); this parameter has {}",
                          spec.shape.size()),
                     "give parameters that are not matrices to another recipe, such as adamw");
  const int64_t rows = spec.shape[0];
  const int64_t cols = spec.shape[1];
  const DType ns_dtype = values.choice("ns_dtype") == "f32" ? DType::F32 : DType::BF16;
  Builder b("muon");
  const Shape shape = make_shape({Extent::of(rows), Extent::of(cols)});
  const ValueId p = b.param("p", spec.param, shape);
  const ValueId g = b.grad("g", spec.grad, shape);
  const ValueId buffer = b.state("buf", "momentum_buffer", spec.state, shape);
  const ValueId lr = b.hyper("lr", values.number("lr"), kNonNegative);
  const ValueId momentum = b.hyper("momentum", values.number("momentum"), kUnit);
  const ValueId weight_decay = b.hyper("weight_decay", values.number("weight_decay"), kNonNegative);
  const ValueId eps = b.hyper("eps", values.number("eps"), kNonNegative);
  const Coefficients coefficients{b.constant(values.number("ns_a")), b.constant(values.number("ns_b")),
                                  b.constant(values.number("ns_c"))};
  const ValueId one = b.constant(1);

  const ValueId buffer_new = b.op(Op::Lerp, {buffer, g, b.sub(one, momentum)}, "buf_new", spec.state);
  const ValueId update =
      values.flag("nesterov") ? b.op(Op::Lerp, {g, buffer_new, momentum}, "update", spec.state) : buffer_new;
  const ValueId u = ns_dtype == spec.state ? update : b.op(Op::Cast, {update}, "u", ns_dtype);
  const ValueId norm = b.reduce(Op::Norm, u, Axis::Matrix, "norm");
  const ValueId clamped = b.op(Op::Max, {norm, eps}, "clamped");
  ValueId x = b.div(u, clamped, "x");
  // The Gram matrix is taken on the short side.
  if (rows > cols) x = b.op(Op::Transpose, {x}, "x_wide");
  for (int i = 0; i < static_cast<int>(values.number("ns_steps")); ++i)
    x = newton_schulz_step(b, x, coefficients, ns_dtype);
  if (rows > cols) x = b.op(Op::Transpose, {x}, "x_tall");
  const ValueId decayed = b.mul(p, b.sub(one, b.mul(lr, weight_decay)), "p_decayed");
  const ValueId adjusted_lr = b.mul(lr, b.constant(muon_lr_scale(values, spec.shape)), "adjusted_lr");
  b.replace(p, b.op(Op::Axpy, {b.neg(adjusted_lr), x, decayed}, "p_new", spec.param));
  b.replace(buffer, buffer_new);
  return b.take();
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
