// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/absorb_scale.h"

#include "compiler/passes/passes.h"

#include <array>

namespace stepfuse::compiler {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// factor * tensor, the tensor possibly a product that nobody else reads.
struct Term {
  ValueId factor;
  ValueId tensor;
  bool absorbable = false;
};

/// Works on `out` (already rewritten) and counts readers on `in`: a value of `out` with one reader there has one here.
class Matcher {
 public:
  Matcher(Graph& out, const Graph& in, const std::vector<uint32_t>& uses) : out_(out), in_(in), uses_(uses) {}

  Term term(ValueId in_id, ValueId out_id) {
    const Node node = out_.node(out_id);
    const bool single = uses_[in_id.v] == 1;
    Term result{out_.add_const(1), out_id, single && is_bare_product(node)};
    if (node.op != Op::Mul || !single || in_.node(in_id).op != Op::Mul) return result;
    for (size_t k = 0; k < 2; ++k) {
      if (!out_.is_scalar(node.operands[k])) continue;
      const ValueId tensor = node.operands[1 - k];
      const ValueId in_tensor =
          in_.is_scalar(in_.node(in_id).operands[0]) ? in_.node(in_id).operands[1] : in_.node(in_id).operands[0];
      const bool product = uses_[in_tensor.v] == 1 && is_bare_product(out_.node(tensor));
      return {node.operands[k], tensor, product};
    }
    return result;
  }

  std::optional<ValueId> scale(const Term& product, ValueId factor, const ir::Type& type) {
    const Node matmul = out_.node(product.tensor);
    const ValueId alpha = matmul.num_operands == 3 ? multiply_factors(out_, factor, matmul.operands[2]) : factor;
    return try_emit(out_, Op::Matmul, std::array{matmul.operands[0], matmul.operands[1], alpha}, matmul.attr,
                    type.dtype);
  }

  /// alpha * (A B) + beta * C; `type` is that of the sum.
  std::optional<ValueId> combine(const Term& product, const Term& addend, const ir::Type& type) {
    const Node matmul = out_.node(product.tensor);
    const ValueId old_alpha = matmul.num_operands == 3 ? matmul.operands[2] : out_.add_const(1);
    const ValueId alpha = multiply_factors(out_, product.factor, old_alpha);
    // With C the result need not be symmetric any more; mark_symmetric looks again.
    auto flags = std::get<ir::MatmulAttr>(matmul.attr);
    flags.symmetric = false;
    const std::array operands{matmul.operands[0], matmul.operands[1], addend.tensor, alpha, addend.factor};
    return try_emit(out_, Op::Matmul, operands, flags, type.dtype);
  }

 private:
  static bool is_bare_product(const Node& node) { return node.op == Op::Matmul && node.num_operands <= 3; }
  Graph& out_;
  const Graph& in_;
  const std::vector<uint32_t>& uses_;
};

ValueId negate(Graph& out, ValueId factor) {
  if (const auto value = constant_of(out, factor)) return out.add_const(-*value);
  return ir::emit(out, Op::Neg, {factor});
}

/// The two terms of a sum: a + b, a - b, alpha x + y.
std::optional<std::pair<Term, Term>> terms_of(Graph& out, const Node& node, std::span<const ValueId> operands,
                                              Matcher& matcher) {
  if (node.op == Op::Add || node.op == Op::Sub) {
    if (out.is_scalar(operands[0]) || out.is_scalar(operands[1])) return std::nullopt;
    Term second = matcher.term(node.operands[1], operands[1]);
    if (node.op == Op::Sub) second.factor = negate(out, second.factor);
    return std::pair(matcher.term(node.operands[0], operands[0]), second);
  }
  if (node.op != Op::Axpy || !out.is_scalar(operands[0]) || out.is_scalar(operands[1]) || out.is_scalar(operands[2]))
    return std::nullopt;
  Term first = matcher.term(node.operands[1], operands[1]);
  first.factor = multiply_factors(out, operands[0], first.factor);
  return std::pair(first, matcher.term(node.operands[2], operands[2]));
}

bool fits(const Graph& out, const Term& product, const Term& addend, const ir::Type& type, const PassContext& context) {
  return product.absorbable && out.node(product.tensor).type.shape == type.shape &&
         out.node(addend.tensor).type.shape == type.shape && !is_transposed_view(out, addend.tensor) &&
         has_plain_rows(out, addend.tensor, context.layouts);
}

/// s * (A B) with a scalar s.
std::optional<ValueId> absorb_factor(Graph& out, const Node& node, std::span<const ValueId> operands,
                                     Matcher& matcher) {
  if (node.op != Op::Mul) return std::nullopt;
  for (size_t k = 0; k < 2; ++k) {
    if (!out.is_scalar(operands[k]) || out.is_scalar(operands[1 - k])) continue;
    const Term product = matcher.term(node.operands[1 - k], operands[1 - k]);
    if (product.absorbable && product.tensor == operands[1 - k]) return matcher.scale(product, operands[k], node.type);
  }
  return std::nullopt;
}

std::optional<ValueId> absorb_sum(Graph& out, const Node& node, std::span<const ValueId> operands, Matcher& matcher,
                                  const PassContext& context) {
  auto terms = terms_of(out, node, operands, matcher);
  if (!terms) return std::nullopt;
  auto& [first, second] = *terms;
  if (fits(out, second, first, node.type, context))
    if (auto product = matcher.combine(second, first, node.type)) return product;
  return fits(out, first, second, node.type, context) ? matcher.combine(first, second, node.type) : std::nullopt;
}

}  // namespace

bool absorb_scale(Graph& graph, const PassContext& context) {
  const Graph in = graph;
  const auto uses = ir::count_uses(in);
  int64_t absorbed = 0;
  const bool changed =
      ir::rewrite(graph, [&](Graph& out, ValueId id, std::span<const ValueId> operands) -> std::optional<ValueId> {
        const Node& node = in.node(id);
        if (node.type.scalar) return std::nullopt;
        Matcher matcher(out, in, uses);
        auto replaced = absorb_sum(out, node, operands, matcher, context);
        if (!replaced) return absorb_factor(out, node, operands, matcher);
        ++absorbed;
        return replaced;
      });
  if (absorbed > 0)
    context.record({"absorb_scale",
                    in.name,
                    true,
                    fmt::format("{} sums around products become their alpha and beta", absorbed),
                    fmt::format("{} elementwise launches or kernel inputs", 2 * absorbed),
                    {"scale and add in kernels of their own"}});
  return changed;
}

}  // namespace stepfuse::compiler
