// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// SOAP in the order of emerging-optimizers 0.3.0 (emerging_optimizers/soap/soap.py): Adam in the eigenbasis of
// Shampoo's two statistics, refreshed every step, by eigh in the first step and by power iteration and QR after it.
// Vyas et al. 2024; the KL variant is Lin et al. 2025.
#include "ir/builder.h"
#include "ir/optimizers/decay.h"
#include "ir/optimizers/options.h"
#include "ir/optimizers/recipe.h"

#include <cmath>

namespace stepfuse::ir {

namespace {

constexpr std::string_view kPackage = "emerging-optimizers 0.3.0";

std::span<const OptionInfo> soap_table() {
  static const std::vector<std::string_view> kPrecisions{"highest", "high", "medium"};
  constexpr std::string_view kPrecision = "the least precision of its f32 products; ours are f32, which serves each";
  static const std::vector<OptionInfo> kTable{
      number_option("lr", "0.001", kNonNegative, "learning rate", "stepfuse; the package has no default"),
      betas_option("0.9,0.95", "decay of the two moment averages, kept in the eigenbasis", kPackage),
      number_option("shampoo_beta", "0.95", kUnit, "decay of the statistics L and R", kPackage),
      number_option("eps", "1e-8", kNonNegative, "added to Adam's denominator, outside the root", kPackage),
      number_option("weight_decay", "0.01", kNonNegative, "strength of the decay", kPackage),
      decay_method_option(kPackage),
      flag_option("nesterov", "false", "Nesterov's momentum in Adam", kPackage),
      flag_option("correct_bias", "true", "correct the bias of Adam's averages", kPackage),
      choice_option("correct_shampoo_beta_bias", "none", {"none", "true", "false"},
                    "the same for L and R; none: as correct_bias", kPackage),
      choice_option("fp32_matmul_prec", "high", kPrecisions, kPrecision, kPackage),
      choice_option("qr_fp32_matmul_prec", "high", kPrecisions, kPrecision, kPackage),
      flag_option("use_eigh", "false", "eigh in every step, not in the first alone", kPackage),
      integer_option("power_iter_steps", "1", Interval{0, 99, false, false},
                     "power iterations, each followed by a QR, per step", kPackage),
      number_option("max_update_rms", "0", kNonNegative, "largest RMS of the update; 0 does not limit it", kPackage),
      flag_option("use_kl_shampoo", "false", "statistics that minimise the Kullback-Leibler divergence", kPackage)};
  return kTable;
}

/// One side of the parameter: its statistic and the basis that goes with it.
struct Side {
  ValueId factor, basis;  // as they were
  double extent;
  ValueId new_factor, new_basis;
  std::string name;  // "l" or "r"
};

class Soap {
 public:
  Soap(const OptionValues& values, const ParameterSpec& spec)
      : values_(values), spec_(spec), dtype_(math_dtype(spec.state)), b_("soap") {}

  Graph run() {
    declare();
    update_factors();
    const ValueId original = project(m_, left_.basis, right_.basis, false, "m_original");
    const ValueId key_l = approximate_values(left_, left_.new_factor);
    const ValueId key_r = approximate_values(right_, right_.new_factor);
    const ValueId v_rows = b_.transpose(b_.op(Op::SortCols, {b_.transpose(v_, "v_t"), key_l}, "v_t_sorted"), "v_rows");
    const ValueId v_sorted = b_.op(Op::SortCols, {v_rows, key_r}, "v_sorted");
    refresh(left_, key_l);
    refresh(right_, key_r);
    const ValueId m_rotated = project(original, left_.new_basis, right_.new_basis, true, "m_rotated");
    const Decayed decayed =
        apply_decay(b_, decay_named(values_.choice("weight_decay_method")), {p_, g_}, lr_, weight_decay_);
    const ValueId g_rotated = project(decayed.grad, left_.new_basis, right_.new_basis, true, "g_rotated");
    const ValueId u_rotated = adam(m_rotated, v_sorted, g_rotated);
    ValueId u = project(u_rotated, left_.new_basis, right_.new_basis, false, "u");
    if (values_.number("max_update_rms") != 0) u = limit(u);
    b_.replace(p_, b_.op(Op::Axpy, {b_.neg(lr_), u, decayed.param}, "p_new", spec_.param));
    return b_.take();
  }

 private:
  void declare() {
    const Extent rows = Extent::of(spec_.shape[0]), cols = Extent::of(spec_.shape[1]);
    const Shape shape = make_shape({rows, cols});
    p_ = b_.param("p", spec_.param, shape);
    const ValueId g = b_.grad("g", spec_.grad, shape);
    g_ = spec_.grad == dtype_ ? g : b_.op(Op::Cast, {g}, "g_wide", dtype_);
    m_ = b_.state("m", "exp_avg", dtype_, shape);
    v_ = b_.state("v", "exp_avg_sq", dtype_, shape);
    const auto side = [&](Extent extent, const std::string& name, const char* factor, const char* basis) {
      const Shape square = make_shape({extent, extent});
      return Side{b_.state(name, factor, dtype_, square),
                  b_.state("q" + name, basis, dtype_, square),
                  static_cast<double>(extent.value()),
                  {},
                  {},
                  name};
    };
    left_ = side(rows, "l", "L", "Q_L");
    right_ = side(cols, "r", "R", "Q_R");
    t_ = b_.step("t");
    lr_ = b_.hyper("lr", values_.number("lr"), kNonNegative);
    beta1_ = b_.hyper("beta1", values_.number("beta1"), kUnit);
    beta2_ = b_.hyper("beta2", values_.number("beta2"), kUnit);
    shampoo_beta_ = b_.hyper("shampoo_beta", values_.number("shampoo_beta"), kUnit);
    eps_ = b_.hyper("eps", values_.number("eps"), kNonNegative);
    weight_decay_ = b_.hyper("weight_decay", values_.number("weight_decay"), kNonNegative);
    one_ = b_.constant(1);
    first_ = b_.op(Op::Fresh, {left_.basis});
  }

  ValueId product(ValueId a, ValueId b, const MatmulAttr& flags, const std::string& name) {
    return b_.matmul(a, b, flags, name, dtype_);
  }

  /// Into the bases, Q_L^T x Q_R, or out of them, Q_L x Q_R^T.
  ValueId project(ValueId x, ValueId left, ValueId right, bool into, const std::string& name) {
    const ValueId half = product(left, x, {.trans_a = into}, name + "_half");
    return product(half, right, {.trans_b = !into}, name);
  }

  /// 1 - beta^t, or 1 where the bias stays.
  ValueId correction(ValueId beta, ValueId t) { return b_.sub(one_, b_.op(Op::Powi, {beta, t})); }

  bool corrects_factors() const {
    const std::string_view choice = values_.choice("correct_shampoo_beta_bias");
    return choice == "none" ? values_.flag("correct_bias") : choice == "true";
  }

  void update_factors() {
    ValueId beta = shampoo_beta_;
    if (corrects_factors()) beta = b_.sub(one_, b_.div(b_.sub(one_, beta), correction(beta, t_)));
    const ValueId weight = b_.sub(one_, beta, "factor_weight");
    ValueId input_l, input_r;
    if (values_.flag("use_kl_shampoo")) {
      input_r = product(product(g_, whitener(left_), {.trans_a = true}, "g_l"), g_, {}, "input_r");
      input_l = product(product(g_, whitener(right_), {}, "g_r"), g_, {.trans_b = true}, "input_l");
    } else {
      input_l = product(g_, g_, {.trans_b = true}, "input_l");
      input_r = product(g_, g_, {.trans_a = true}, "input_r");
    }
    left_.new_factor = b_.op(Op::Lerp, {left_.factor, input_l, weight}, "l_new");
    right_.new_factor = b_.op(Op::Lerp, {right_.factor, input_r, weight}, "r_new");
    b_.replace(left_.factor, left_.new_factor);
    b_.replace(right_.factor, right_.new_factor);
  }

  /// The diagonal of Q^T K Q, as one row.
  ValueId approximate_values(const Side& side, ValueId factor) {
    const ValueId image = product(factor, side.basis, {}, side.name + "_q");
    return b_.reduce(Op::Sum, b_.mul(side.basis, image, side.name + "_qkq"), Axis::Cols, side.name + "_values");
  }

  /// Q diag(1 / (n max(values, eps))) Q^T. The first step's basis is the identity, and its values are 0.
  ValueId whitener(const Side& side) {
    const ValueId values = approximate_values(side, side.factor);
    const ValueId clamped = b_.op(Op::Max, {values, eps_}, side.name + "_clamped");
    const ValueId inverse = b_.div(b_.constant(1 / side.extent), clamped, side.name + "_inverse");
    const ValueId scaled = b_.mul(side.basis, inverse, side.name + "_scaled");
    const ValueId whitened = product(scaled, side.basis, {.trans_b = true}, side.name + "_whitened");
    const ValueId at_first = b_.div(b_.constant(1 / side.extent), eps_);
    return b_.op(Op::AddDiag, {whitened, b_.op(Op::Select, {first_, at_first, b_.constant(0)})},
                 side.name + "_whitener");
  }

  /// The eigenvectors of the new factor by descending eigenvalue.
  void refresh(Side& side, ValueId keys) {
    const bool always = values_.flag("use_eigh");
    side.new_basis = eigenvectors(side, always);
    if (!always) {
      const ValueId iterated = iterate(side, keys);
      side.new_basis = b_.op(Op::Select, {first_, side.new_basis, iterated}, "q" + side.name + "_new");
    }
    b_.replace(side.basis, side.new_basis);
  }

  ValueId eigenvectors(const Side& side, bool always) {
    const auto n = static_cast<int64_t>(side.extent);
    const std::string name = side.name + "_eigh";
    const ValueId pairs =
        always ? b_.op(Op::Eigh, {side.new_factor}, name) : b_.op(Op::Eigh, {side.new_factor, first_}, name);
    const ValueId vectors = b_.slice(pairs, {0, 0, n}, side.name + "_vectors");
    const ValueId values = b_.slice(pairs, {0, n, n + 1}, side.name + "_eigenvalues");
    return b_.op(Op::SortCols, {vectors, values}, side.name + "_descending");
  }

  ValueId iterate(const Side& side, ValueId keys) {
    ValueId q = b_.op(Op::SortCols, {side.basis, keys}, "q" + side.name + "_sorted");
    for (int i = 0; i < static_cast<int>(values_.number("power_iter_steps")); ++i)
      q = b_.op(Op::Qr, {product(side.new_factor, q, {}, side.name + "_power")}, "q" + side.name + "_qr");
    return q;
  }

  ValueId adam(ValueId m, ValueId v, ValueId g) {
    const bool corrected = values_.flag("correct_bias");
    const ValueId rest1 = b_.sub(one_, beta1_);
    const ValueId m_new = b_.op(Op::Lerp, {m, g, rest1}, "m_new");
    const ValueId v_new = b_.op(Op::Lerp, {v, b_.mul(g, g, "g_squared"), b_.sub(one_, beta2_)}, "v_new");
    b_.replace(m_, m_new);
    b_.replace(v_, v_new);
    const ValueId correction1 = corrected ? correction(beta1_, t_) : one_;
    const ValueId correction2 = corrected ? correction(beta2_, t_) : one_;
    ValueId momentum = b_.div(m_new, correction1, "m_corrected");
    if (values_.flag("nesterov")) {
      const ValueId ahead = corrected ? correction(beta1_, b_.add(t_, one_)) : one_;
      const ValueId old = b_.div(b_.mul(m_new, beta1_, "m_scaled"), ahead, "m_ahead");
      momentum = b_.add(old, b_.div(b_.mul(g, rest1, "g_scaled"), correction1, "g_corrected"), "m_nesterov");
    }
    const ValueId root = b_.sqrt(b_.div(v_new, correction2, "v_corrected"), "root");
    return b_.div(momentum, b_.add(root, eps_, "denominator"), "u_rotated");
  }

  /// At most max_update_rms, with the package's guard of 1e-7.
  ValueId limit(ValueId u) {
    const ValueId most = b_.hyper("max_update_rms", values_.number("max_update_rms"),
                                  Interval{0, std::numeric_limits<double>::infinity(), true, true});
    const double elements = left_.extent * right_.extent;
    const ValueId norm = b_.reduce(Op::Norm, u, Axis::Matrix, "u_norm");
    const ValueId rms = b_.div(norm, b_.constant(std::sqrt(elements)), "u_rms");
    const ValueId ratio = b_.div(most, b_.add(rms, b_.constant(1e-7), "u_rms_guarded"), "ratio");
    return b_.mul(u, b_.op(Op::Min, {ratio, one_}, "limit"), "u_limited");
  }

  const OptionValues& values_;
  const ParameterSpec& spec_;
  DType dtype_;
  Builder b_;
  ValueId p_, g_, m_, v_, t_, lr_, beta1_, beta2_, shampoo_beta_, eps_, weight_decay_, one_, first_;
  Side left_, right_;
};

Result<Graph> build_soap(const OptionValues& values, const ParameterSpec& spec) {
  if (spec.shape.size() != kSoapRecipe.dimensions)
    return with_hint(fail(StatusCode::InvalidArgument, "soap takes matrices (2 dimensions); this parameter has {}",
                          spec.shape.size()),
                     "give parameters that are not matrices to another recipe, such as adamw");
  return Soap(values, spec).run();
}

/// As TorchDispatchMode counts them on 0.3.0 with torch 2.15.0, what it compiles left eager; steps after the first.
PeerLaunches peer_soap(const OptionValues& values) {
  const bool eigh = values.flag("use_eigh"), kl = values.flag("use_kl_shampoo");
  const auto iterations = eigh ? 0 : static_cast<int64_t>(values.number("power_iter_steps"));
  const int64_t optional = (values.number("weight_decay") != 0 ? 1 : 0) + (eigh ? 4 : 0) +
                           (values.flag("nesterov") ? 4 : 0) + (values.number("max_update_rms") != 0 ? 8 : 0) +
                           (kl ? 12 : 0);
  return {"emerging_optimizers SOAP", 19 + optional, 12 + 2 * iterations + (kl ? 6 : 0),
          2 + (eigh ? 2 : 2 * iterations)};
}

}  // namespace

const Recipe kSoapRecipe{
    "soap",
    "Adam in the eigenbasis of Shampoo's statistics, for matrices; its states are f32, of a 16-bit parameter too",
    "emerging_optimizers.soap.SOAP 0.3.0",
    soap_table,
    no_cross_checks,
    build_soap,
    peer_soap,
    2,
    nullptr,
    "emerging"};

}  // namespace stepfuse::ir
