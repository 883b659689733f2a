// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// MOP in the order of emerging-optimizers 0.3.0 (emerging_optimizers/orthogonalized_optimizers/mop.py): decay, momentum
// by lerp, the polar factor of the momentum by its SVD, scaled by the nuclear norm (Lau et al. 2025) or by the shape.
#include "ir/optimizers/emerging.h"
#include "ir/optimizers/shape_scale.h"

namespace stepfuse::ir {

namespace {

std::span<const OptionInfo> mop_table() {
  static const std::vector<OptionInfo> kTable{
      {"lr", OptionKind::Number, "0.0003", kNonNegative, {}, {}, "learning rate", kEmerging},
      {"momentum", OptionKind::Number, "0.95", kUnit, {}, {}, "decay of the momentum buffer (lerp form)", kEmerging},
      {"weight_decay", OptionKind::Number, "0.01", kNonNegative, {}, {}, "strength of the decay", kEmerging},
      {"nesterov", OptionKind::Bool, "false", {}, {}, {}, "decompose lerp(gradient, buffer, momentum)", kEmerging},
      decay_method_option(kEmerging),
      fp32_matmul_prec_option("fp32_matmul_prec", "highest"),
      {"scale_mode",
       OptionKind::Choice,
       "nuclear_norm",
       {},
       {"nuclear_norm", "shape_scaling", "spectral", "unit_rms_norm"},
       {},
       "factor on the update of an R x C matrix: the sum of singular values; sqrt(max(1, R/C)); sqrt(max(R, C)); "
       "sqrt(R/C)",
       kEmerging},
      {"extra_scale_factor", OptionKind::Number, "1", kFinite, {}, {}, "another factor on the update", kEmerging}};
  return kTable;
}

Outcome no_cross_checks(const OptionValues&) { return {}; }

/// U V^T and, as one element, the sum of the singular values.
struct Polar {
  ValueId factor, nuclear_norm;
};

Polar polar(Builder& b, ValueId x, const ParameterSpec& spec) {
  const int64_t rows = spec.shape[0], cols = spec.shape[1];
  const ValueId triples = b.op(Op::Svd, {x}, "svd");
  const ValueId u = b.slice(triples, {0, 0, rows}, "left");
  const ValueId values = b.slice(triples, {0, rows, rows + 1}, "singular_values");
  const ValueId v = b.slice(triples, {0, rows + 1, rows + 1 + cols}, "right");
  return {b.matmul(u, v, {.trans_b = true}, "polar", b.dtype(x)),
          b.reduce(Op::Sum, values, Axis::Matrix, "nuclear_norm")};
}

Result<Graph> build_mop(const OptionValues& values, const ParameterSpec& spec) {
  STEPFUSE_TRY(check_matrix("mop", spec));
  Builder b("mop");
  const Shape shape = make_shape({Extent::of(spec.shape[0]), Extent::of(spec.shape[1])});
  const ValueId p = b.param("p", spec.param, shape);
  const ValueId g = b.grad("g", spec.grad, shape);
  const ValueId buffer = b.state("buf", "momentum_buffer", spec.state, shape);
  const ValueId lr = b.hyper("lr", values.number("lr"), kNonNegative);
  const ValueId momentum = b.hyper("momentum", values.number("momentum"), kUnit);
  const ValueId weight_decay = b.hyper("weight_decay", values.number("weight_decay"), kNonNegative);
  const ValueId extra = b.hyper("extra_scale_factor", values.number("extra_scale_factor"), kFinite);

  const Decayed decayed = apply_decay(b, decay_named(values.choice("weight_decay_method")), {p, g}, lr, weight_decay);
  const ValueId buffer_new =
      b.op(Op::Lerp, {buffer, decayed.grad, b.sub(b.constant(1), momentum)}, "buf_new", spec.state);
  ValueId update = buffer_new;
  if (values.flag("nesterov")) update = b.op(Op::Lerp, {decayed.grad, buffer_new, momentum}, "update", spec.state);
  // torch's SVD takes no 16-bit matrices; a wider state is decomposed as it is.
  const DType wide = math_dtype(spec.state);
  if (wide != spec.state) update = b.op(Op::Cast, {update}, "update_wide", wide);
  const Polar parts = polar(b, update, spec);
  const std::string_view mode = values.choice("scale_mode");
  const ValueId scale = mode == "nuclear_norm"
                            ? parts.nuclear_norm
                            : b.constant(shape_scale(scale_mode_named(mode), static_cast<double>(spec.shape[0]),
                                                     static_cast<double>(spec.shape[1])));
  const ValueId scaled = b.mul(b.mul(parts.factor, scale, "scaled"), extra, "scaled_extra");
  b.replace(p, b.op(Op::Axpy, {b.neg(lr), scaled, decayed.param}, "p_new", spec.param));
  b.replace(buffer, buffer_new);
  return b.take();
}

/// add_ for the decay, lerp_, lerp, the SVD, mm, sum, mul, mul and add_ (TorchDispatchMode on 0.3.0 with torch 2.15.0).
PeerLaunches peer_mop(const OptionValues& values) {
  const int64_t optional = (values.number("weight_decay") != 0 ? 1 : 0) + (values.flag("nesterov") ? 1 : 0) +
                           (values.choice("scale_mode") == "nuclear_norm" ? 1 : 0);
  return {"emerging_optimizers MOP", 4 + optional, 1, 1};
}

}  // namespace

const Recipe kMopRecipe{"mop",
                        "Momentum orthogonalised by polar decomposition, for matrices",
                        "emerging_optimizers MOP 0.3.0",
                        mop_table,
                        no_cross_checks,
                        build_mop,
                        peer_mop,
                        2,
                        nullptr,
                        "emerging"};

}  // namespace stepfuse::ir
