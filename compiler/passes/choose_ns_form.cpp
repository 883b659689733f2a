// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/choose_ns_form.h"

#include "compiler/gram_restarts.h"
#include "compiler/newton_schulz.h"
#include "compiler/passes/passes.h"
#include "compiler/product_cost.h"

#include <algorithm>
#include <array>
#include <map>

namespace stepfuse::compiler {

using ir::DType;
using ir::Graph;
using ir::MatmulAttr;
using ir::Op;
using ir::ValueId;

namespace {

/// The Gram form must cost this much less: it keeps more matrices and rounds differently.
constexpr double kMargin = 0.1;
/// In bf16 the entries of Q keep too few bits for matrices nearer to a square, or smaller (docs/performance.md).
constexpr double kLeastBf16Ratio = 1.5;
constexpr int64_t kLeastBf16Extent = 64;

struct FormCost {
  double flops = 0;  // of one member
  int64_t products = 0;
  int64_t diagonals = 0;

  double total(const PassContext& context) const {
    return static_cast<double>(context.members) * flops +
           static_cast<double>(products + diagonals) * context.target.launch_flops;
  }
  std::string text() const { return fmt::format("{} products, {:.3g} GFLOP per matrix", products, flops / 1e9); }
};

/// Extents of X, and what its products cost.
struct Extents {
  int64_t n = 0, m = 0;  // of A and the other one
  double batch = 1;
  bool triangles = false;

  double square() const { return batch * product_flops(n, n, n, triangles); }
  double gram() const { return batch * product_flops(n, n, m, triangles); }
  double apply() const { return batch * product_flops(n, m, n, false); }
};

/// The type products of the iteration run in; see widen_products.
DType product_type(const Graph& graph, const NewtonSchulzChain& chain, const PassContext& context) {
  const DType dtype = graph.node(chain[0].x).type.dtype;
  return dtype == DType::BF16 && !context.target.bf16_products ? DType::F32 : dtype;
}

Extents extents_of(const Graph& graph, const NewtonSchulzChain& chain, const PassContext& context) {
  const ir::Shape& shape = graph.node(chain[0].x).type.shape;
  Extents extents{shape.from_end(1).value(), shape.from_end(0).value(), static_cast<double>(shape.from_end(2).value()),
                  computes_triangle(context.target, product_type(graph, chain, context))};
  if (!chain[0].left) std::swap(extents.n, extents.m);
  return extents;
}

FormCost standard_cost(const NewtonSchulzChain& chain, const Extents& extents) {
  FormCost cost;
  for (const NewtonSchulzStep& step : chain) {
    for (const auto& product : step.products) {
      const bool is_gram = product.value == step.gram;
      cost.flops += is_gram ? extents.gram() : product.symmetric ? extents.square() : extents.apply();
      ++cost.products;
    }
  }
  return cost;
}

/// Steps that run without X, [begin, end).
struct Segment {
  size_t begin, end;
  bool single() const { return end - begin == 1; }
};

std::vector<Segment> segments_of(size_t steps, const std::vector<int>& before) {
  std::vector<Segment> segments;
  size_t begin = 0;
  for (int restart : before) {
    segments.push_back({begin, static_cast<size_t>(restart)});
    begin = static_cast<size_t>(restart);
  }
  segments.push_back({begin, steps});
  return segments;
}

FormCost gram_cost(const NewtonSchulzChain& chain, const std::vector<int>& before, const Extents& extents) {
  FormCost cost;
  for (const Segment& segment : segments_of(chain.size(), before)) {
    int64_t squares = 0;
    for (size_t i = segment.begin; i < segment.end; ++i)
      squares += (chain[i].c != 0 ? 1 : 0) + (i > segment.begin ? 1 : 0) + (i + 1 < segment.end ? 2 : 0);
    cost.flops += extents.gram() + static_cast<double>(squares) * extents.square() + extents.apply();
    cost.products += squares + 2;
    cost.diagonals += segment.single() ? 0 : 1;
  }
  return cost;
}

/// Writes the Gram form. Every product of polynomials commutes, so X may stand on either side.
class GramWriter {
 public:
  GramWriter(Graph& out, const NewtonSchulzChain& chain, DType dtype) : out_(out), chain_(chain), dtype_(dtype) {}

  ValueId write(ValueId x, const std::vector<int>& before, DType result) {
    for (const Segment& segment : segments_of(chain_.size(), before)) {
      const bool last = segment.end == chain_.size();
      const DType dtype = last ? result : dtype_;
      x = segment.single() ? single_step(chain_[segment.begin], x, dtype) : apply(polynomial(segment, x), x, {}, dtype);
      if (!last) out_.set_name(x, "x");
    }
    return x;
  }

 private:
  /// factor * matrix, the part of a step's polynomial without a I: b R + c R R is one product, b R none.
  struct Scaled {
    ValueId matrix;
    double factor = 1;
  };

  Scaled without_diagonal(const NewtonSchulzStep& step, ValueId r) {
    if (step.c == 0) return {r, step.b};
    return {product(r, {r, step.c}, r, step.b, "z")};
  }

  /// left * (factor * right) + beta * c
  ValueId product(ValueId left, const Scaled& right, ValueId c, double beta, const std::string& name) {
    const ValueId result =
        ir::emit(out_, Op::Matmul, {left, right.matrix, c, out_.add_const(right.factor), out_.add_const(beta)},
                 MatmulAttr{}, dtype_);
    out_.set_name(result, name);
    return result;
  }

  ValueId gram(ValueId x) {
    const bool left = chain_[0].left;
    const ValueId result = ir::emit(out_, Op::Matmul, {x, x}, MatmulAttr{!left, left, false}, dtype_);
    out_.set_name(result, "gram");
    return result;
  }

  /// q X or X q, with alpha and beta X where given.
  ValueId apply(ValueId q, ValueId x, const std::vector<ValueId>& c_alpha_beta, DType dtype) {
    std::vector<ValueId> operands{q, x};
    if (!chain_[0].left) std::swap(operands[0], operands[1]);
    operands.insert(operands.end(), c_alpha_beta.begin(), c_alpha_beta.end());
    return ir::emit(out_, Op::Matmul, operands, MatmulAttr{}, dtype);
  }

  ValueId single_step(const NewtonSchulzStep& step, ValueId x, DType dtype) {
    const Scaled z = without_diagonal(step, gram(x));
    return apply(z.matrix, x, {x, out_.add_const(z.factor), out_.add_const(step.a)}, dtype);
  }

  ValueId first_polynomial(const NewtonSchulzStep& step, const Scaled& z) {
    ValueId matrix = z.matrix;
    if (z.factor != 1) {
      matrix = ir::emit(out_, Op::Mul, {z.matrix, out_.add_const(z.factor)}, {}, dtype_);
      out_.set_name(matrix, "z");
    }
    const ValueId q = ir::emit(out_, Op::AddDiag, {matrix, out_.add_const(step.a)});
    out_.set_name(q, "q");
    return q;
  }

  /// Q of the steps of a segment that begins at x.
  ValueId polynomial(const Segment& segment, ValueId x) {
    ValueId r = gram(x);
    ValueId q{};
    for (size_t i = segment.begin; i < segment.end; ++i) {
      const NewtonSchulzStep& step = chain_[i];
      const Scaled z = without_diagonal(step, r);
      q = i == segment.begin ? first_polynomial(step, z) : product(q, z, q, step.a, "q");
      if (i + 1 == segment.end) break;
      // R becomes (a I + Z) R (a I + Z), with a I as beta of the products.
      const ValueId rz = product(r, z, r, step.a, "rz");
      r = product(rz, z, rz, step.a, "gram");
    }
    return q;
  }

  Graph& out_;
  const NewtonSchulzChain& chain_;
  const DType dtype_;
};

std::optional<GramRestarts> restarts_of(const NewtonSchulzChain& chain) {
  std::vector<NewtonSchulzCoefficients> coefficients;
  for (const NewtonSchulzStep& step : chain) coefficients.push_back({step.a, step.b, step.c});
  return stable_restarts(coefficients);
}

/// Why a chain keeps the standard form though nobody asked for it; empty where it does not.
std::string why_standard(const FormCost& standard, const FormCost& gram, const Extents& extents, DType dtype,
                         const PassContext& context) {
  const double ratio = static_cast<double>(std::max(extents.n, extents.m)) /
                       static_cast<double>(std::max<int64_t>(1, std::min(extents.n, extents.m)));
  const double cost = gram.total(context) / standard.total(context);
  if (!(cost <= 1 - kMargin))
    return fmt::format("the Gram form would cost {:.0f} % of it, launches included; it must save {:.0f} %", 100 * cost,
                       100 * kMargin);
  if (dtype == DType::BF16 && (ratio < kLeastBf16Ratio || extents.n < kLeastBf16Extent))
    return fmt::format(
        "in bf16 the Gram form is too inexact here; it needs {} rows or more, and sides of 1 : {} or more",
        kLeastBf16Extent, kLeastBf16Ratio);
  return {};
}

/// What becomes of one chain: restart positions, or nothing where it stays as it is.
std::optional<std::vector<int>> choose(const Graph& graph, const NewtonSchulzChain& chain, const PassContext& context) {
  const Extents extents = extents_of(graph, chain, context);
  const DType dtype = product_type(graph, chain, context);
  const FormCost standard = standard_cost(chain, extents);
  Decision decision{"choose_ns_form", value_label(graph, chain.back().next), false, {}, {}, {}};
  const auto keep = [&](std::string why) -> std::optional<std::vector<int>> {
    decision.why = fmt::format("standard form, {}: {}", standard.text(), why);
    context.record(decision);
    return std::nullopt;
  };
  if (context.ns_form == NsForm::Standard) return keep("asked for by ns_form");
  const auto restarts = restarts_of(chain);
  if (!restarts)
    return keep(chain.size() > kMostGramSteps
                    ? fmt::format("restarts of the Gram form are sought for {} steps at most", kMostGramSteps)
                    : "rounding would outgrow the Gram form of these coefficients wherever it restarts");
  const FormCost gram = gram_cost(chain, restarts->before, extents);
  decision.alternatives = {
      fmt::format("Gram form with restarts before [{}]: {}", fmt::join(restarts->before, ", "), gram.text())};
  if (context.ns_form == NsForm::Auto)
    if (std::string why = why_standard(standard, gram, extents, dtype, context); !why.empty())
      return keep(std::move(why));
  decision.taken = true;
  decision.why = fmt::format(
      "{} steps on {} x {} in {} run on the Gram matrix, {}; restarts before [{}] keep |Q| within {:.3g}{}",
      chain.size(), extents.n, extents.m, ir::dtype_name(dtype), gram.text(), fmt::join(restarts->before, ", "),
      restarts->growth, context.ns_form == NsForm::Gram ? "; asked for by ns_form" : "");
  if (gram.flops < standard.flops)
    decision.saves = fmt::format("{:.3g} GFLOP per matrix", (standard.flops - gram.flops) / 1e9);
  decision.alternatives = {fmt::format("standard form: {}", standard.text())};
  context.record(decision);
  return restarts->before;
}

}  // namespace

bool choose_ns_form(Graph& graph, const PassContext& context) {
  const Graph in = graph;
  struct Rewrite {
    NewtonSchulzChain chain;
    std::vector<int> before;
    ValueId x;  // of the new graph
  };
  std::vector<Rewrite> rewrites;
  for (const NewtonSchulzChain& chain : find_newton_schulz(in)) {
    if (chain.size() < 2) continue;
    if (auto before = choose(in, chain, context)) rewrites.push_back({chain, std::move(*before), {}});
  }
  if (rewrites.empty()) return false;
  return ir::rewrite(graph, [&](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
    for (Rewrite& rewrite : rewrites) {
      if (id == rewrite.chain.front().gram) rewrite.x = operands[0];
      if (id != rewrite.chain.back().next) continue;
      GramWriter writer(out, rewrite.chain, in.node(rewrite.chain[0].x).type.dtype);
      return writer.write(rewrite.x, rewrite.before, in.node(id).type.dtype);
    }
    return std::nullopt;
  });
}

}  // namespace stepfuse::compiler
