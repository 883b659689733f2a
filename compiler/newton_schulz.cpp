// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/newton_schulz.h"

#include "compiler/passes/passes.h"

#include <algorithm>
#include <array>
#include <optional>

namespace stepfuse::compiler {

using ir::Graph;
using ir::MatmulAttr;
using ir::Node;
using ir::Op;
using ir::ValueId;

namespace {

/// k0 I + k1 A + k2 A A, by itself or times X.
struct Form {
  bool times_x = false;
  std::array<double, 3> k{};
};
using MaybeForm = std::optional<Form>;

MaybeForm scaled(MaybeForm form, std::optional<double> factor) {
  if (!form || !factor) return std::nullopt;
  for (double& k : form->k) k *= *factor;
  return form;
}

MaybeForm sum(const MaybeForm& a, const MaybeForm& b) {
  if (!a || !b || a->times_x != b->times_x) return std::nullopt;
  Form result = *a;
  for (size_t i = 0; i < result.k.size(); ++i) result.k[i] += b->k[i];
  return result;
}

MaybeForm product(const Form& a, const Form& b) {
  Form result{a.times_x || b.times_x, {}};
  for (size_t i = 0; i < a.k.size(); ++i) {
    for (size_t j = 0; j < b.k.size(); ++j) {
      const double k = a.k[i] * b.k[j];
      if (k == 0) continue;
      if (i + j >= result.k.size()) return std::nullopt;
      result.k[i + j] += k;
    }
  }
  return result;
}

/// X X^T or X^T X with at most a constant factor.
bool is_gram(const Graph& graph, ValueId id) {
  const Node& node = graph.node(id);
  if (node.op != Op::Matmul || node.num_operands > 3 || node.operands[0] != node.operands[1]) return false;
  const auto flags = std::get<MatmulAttr>(node.attr);
  return flags.trans_a != flags.trans_b && (node.num_operands == 2 || constant_of(graph, node.operands[2]));
}

/// Follows values as polynomials from one X on.
class StepMatcher {
 public:
  StepMatcher(const Graph& graph, ValueId gram, const std::vector<bool>& is_root)
      : graph_(graph), is_root_(is_root), forms_(graph.size()) {
    const Node& node = graph.node(gram);
    step_.gram = gram;
    step_.x = node.operands[0];
    step_.left = std::get<MatmulAttr>(node.attr).trans_b;
    forms_[step_.x.v] = Form{true, {1, 0, 0}};
    const auto alpha = node.num_operands == 3 ? constant_of(graph, node.operands[2]) : std::optional(1.0);
    forms_[gram.v] = scaled(Form{false, {0, 1, 0}}, alpha);
  }

  std::optional<NewtonSchulzStep> match() {
    for (uint32_t i = step_.x.v + 1; i < graph_.size(); ++i)
      if (i != step_.gram.v) forms_[i] = form_of(graph_.node(ValueId{i}));
    const auto next = only_exit();
    if (!next || !forms_[next->v]->times_x) return std::nullopt;
    const auto& k = forms_[next->v]->k;
    step_.next = *next;
    step_.a = k[0];
    step_.b = k[1];
    step_.c = k[2];
    for (uint32_t i = step_.x.v + 1; i <= next->v; ++i)
      if (forms_[i] && graph_.node(ValueId{i}).op == Op::Matmul)
        step_.products.push_back({ValueId{i}, !forms_[i]->times_x});
    return step_.a != 0 && (step_.b != 0 || step_.c != 0) ? std::optional(step_) : std::nullopt;
  }

  /// Nobody but this step reads its X.
  bool owns_x() const {
    for (uint32_t i = 0; i < graph_.size(); ++i)
      if (reads(ValueId{i}, step_.x) && !forms_[i]) return false;
    return !is_output(step_.x);
  }

 private:
  bool reads(ValueId reader, ValueId id) const {
    const auto args = graph_.node(reader).args();
    return std::find(args.begin(), args.end(), id) != args.end();
  }

  bool is_output(ValueId id) const {
    return std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                       [id](const ir::Output& output) { return output.value == id; });
  }

  /// The X that another step begins with ends this one.
  MaybeForm form(ValueId id) const {
    const MaybeForm& known = forms_[id.v];
    return known && known->times_x && is_root_[id.v] && id != step_.x ? std::nullopt : known;
  }
  std::optional<double> constant(ValueId id) const { return constant_of(graph_, id); }

  MaybeForm form_of(const Node& node) const {
    if (node.type.scalar) return std::nullopt;
    const auto& args = node.operands;
    if (node.op == Op::Matmul) return matmul_form(node);
    if (node.op == Op::Cast) return form(args[0]);
    if (node.op == Op::Neg) return scaled(form(args[0]), -1.0);
    if (node.op == Op::Mul)
      return form(args[0]) ? scaled(form(args[0]), constant(args[1])) : scaled(form(args[1]), constant(args[0]));
    if (node.op == Op::Div) return scaled(form(args[0]), reciprocal(constant(args[1])));
    if (node.op == Op::Add) return sum(form(args[0]), form(args[1]));
    if (node.op == Op::Sub) return sum(form(args[0]), scaled(form(args[1]), -1.0));
    if (node.op == Op::Axpy) return sum(scaled(form(args[1]), constant(args[0])), form(args[2]));
    if (node.op == Op::AddDiag) return with_diagonal(form(args[0]), constant(args[1]));
    return std::nullopt;
  }

  static std::optional<double> reciprocal(std::optional<double> value) {
    return value && *value != 0 ? std::optional(1 / *value) : std::nullopt;
  }

  static MaybeForm with_diagonal(MaybeForm form, std::optional<double> value) {
    if (!form || form->times_x || !value) return std::nullopt;
    form->k[0] += *value;
    return form;
  }

  /// Polynomials of A are symmetric and commute, so their order and transposes do not matter; X has one side and no
  /// transpose.
  MaybeForm matmul_form(const Node& node) const {
    const MaybeForm a = form(node.operands[0]);
    const MaybeForm b = form(node.operands[1]);
    if (!a || !b) return std::nullopt;
    const auto flags = std::get<MatmulAttr>(node.attr);
    if (a->times_x && (b->times_x || step_.left || flags.trans_a)) return std::nullopt;
    if (b->times_x && (!step_.left || flags.trans_b)) return std::nullopt;
    MaybeForm result = product(*a, *b);
    if (node.num_operands == 3) return scaled(result, constant(node.operands[2]));
    if (node.num_operands == 5)
      return sum(scaled(result, constant(node.operands[3])),
                 scaled(form(node.operands[2]), constant(node.operands[4])));
    return result;
  }

  /// The one value of this step that anything outside it reads.
  std::optional<ValueId> only_exit() const {
    std::optional<ValueId> exit;
    for (uint32_t i = step_.x.v + 1; i < graph_.size(); ++i) {
      if (!forms_[i] || !leaves(ValueId{i})) continue;
      if (exit) return std::nullopt;
      exit = ValueId{i};
    }
    return exit;
  }

  bool leaves(ValueId id) const {
    if (is_output(id)) return true;
    for (uint32_t i = id.v + 1; i < graph_.size(); ++i)
      if (!forms_[i] && reads(ValueId{i}, id)) return true;
    return false;
  }

  const Graph& graph_;
  const std::vector<bool>& is_root_;
  std::vector<MaybeForm> forms_;
  NewtonSchulzStep step_;
};

bool continues(const Graph& graph, const NewtonSchulzStep& before, const NewtonSchulzStep& step) {
  return before.next == step.x && before.left == step.left && graph.node(before.x).type == graph.node(step.x).type;
}

}  // namespace

std::vector<NewtonSchulzChain> find_newton_schulz(const Graph& graph) {
  std::vector<bool> is_root(graph.size(), false);
  std::vector<ValueId> grams;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (!is_gram(graph, ValueId{i})) continue;
    grams.push_back(ValueId{i});
    is_root[graph.node(ValueId{i}).operands[0].v] = true;
  }
  std::vector<NewtonSchulzChain> chains;
  for (const ValueId gram : grams) {
    StepMatcher matcher(graph, gram, is_root);
    const auto step = matcher.match();
    if (!step) continue;
    const auto chain = std::find_if(chains.begin(), chains.end(), [&](const NewtonSchulzChain& candidate) {
      return continues(graph, candidate.back(), *step) && matcher.owns_x();
    });
    if (chain == chains.end()) {
      chains.push_back({*step});
    } else {
      chain->push_back(*step);
    }
  }
  return chains;
}

}  // namespace stepfuse::compiler
