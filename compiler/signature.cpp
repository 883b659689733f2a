// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/signature.h"

#include "ir/hash.h"
#include "ir/verify.h"

#include <functional>
#include <map>

namespace stepfuse::compiler {

using ir::Extent;
using ir::Graph;
using ir::Input;
using ir::Node;
using ir::Shape;
using ir::ValueId;

namespace {

const Input& param_of(const Graph& rule) {
  for (const Input& input : rule.inputs())
    if (input.kind == ir::InputKind::Param) return input;
  throw InternalError("a rule without a parameter was not refused by the verifier");
}

std::string shape_text(const Graph& rule, const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.rank; ++i) {
    const Extent extent = shape.dims[i];
    text += (i == 0 ? "" : ", ") +
            (extent.is_symbol() ? rule.symbols()[extent.symbol_index()] : std::to_string(extent.value()));
  }
  return text + "]";
}

/// Symbol -> extent, by laying the param's declared shape over the parameter's.
Result<std::map<uint32_t, int64_t>> match_shape(const Graph& rule, const std::vector<int64_t>& shape) {
  const Shape& declared = param_of(rule).type.shape;
  const auto mismatch = [&] {
    return with_hint(fail(StatusCode::InvalidArgument, "rule {} takes a parameter of shape {}, got [{}]", rule.name,
                          shape_text(rule, declared), fmt::join(shape, ", ")),
                     "choose another rule for this parameter, or declare the shape it has");
  };
  if (declared.rank != shape.size()) return mismatch();
  std::map<uint32_t, int64_t> extents;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Extent extent = declared.dims[i];
    if (extent.is_symbol() ? extents.emplace(extent.symbol_index(), shape[i]).first->second != shape[i]
                           : extent.value() != shape[i])
      return mismatch();
  }
  return extents;
}

Result<Shape> substitute(const Graph& rule, Shape shape, const std::map<uint32_t, int64_t>& extents) {
  for (size_t i = 0; i < shape.rank; ++i) {
    if (!shape.dims[i].is_symbol()) continue;
    const auto it = extents.find(shape.dims[i].symbol_index());
    if (it == extents.end())
      return with_hint(fail(StatusCode::InvalidData, "rule {}: the extent {} is not one of the param's", rule.name,
                            rule.symbols()[shape.dims[i].symbol_index()]),
                       "use extents of the param, or numbers, in every other shape");
    shape.dims[i] = Extent::of(it->second);
  }
  return shape;
}

using ShapeOf = std::function<Result<Shape>(const Shape&)>;

/// Rebuilds the rule with inputs of the shapes that `concrete` gives, inferring every type again.
Result<Graph> rebuild(const Graph& rule, const ShapeOf& concrete) {
  Graph out;
  out.name = rule.name;
  std::vector<ValueId> renamed(rule.size());
  for (const Input& input : rule.inputs()) {
    Input copy = input;
    if (!copy.type.scalar) {
      STEPFUSE_ASSIGN(copy.type.shape, concrete(copy.type.shape));
    }
    renamed[input.value.v] = out.add_input(copy);
  }
  for (uint32_t i = 0; i < rule.size(); ++i) {
    Node node = rule.node(ValueId{i});
    if (node.op == ir::Op::Input) continue;
    for (size_t k = 0; k < node.num_operands; ++k) node.operands[k] = renamed[node.operands[k].v];
    if (node.op != ir::Op::Const) {
      auto type = ir::infer_type(out, node.op, node.args(), node.attr,
                                 node.type.scalar ? std::nullopt : std::optional(node.type.dtype));
      if (!type)
        return fail(StatusCode::InvalidData, "rule {} with these extents: {}", rule.name, type.error().message);
      node.type = *type;
    }
    renamed[i] = out.add_node(node);
    if (out.value_name(renamed[i]).empty()) out.set_name(renamed[i], rule.value_name(ValueId{i}));
  }
  for (const ir::Output& output : rule.outputs()) out.add_output(renamed[output.value.v], renamed[output.target.v]);
  // Extents that were symbols may now be too large.
  STEPFUSE_TRY(ir::check(out));
  return out;
}

/// A gradient is bound like its parameter, element for element, and there is one.
Outcome check_gradients(const Graph& rule) {
  const Shape& shape = param_of(rule).type.shape;
  int64_t gradients = 0;
  for (const Input& input : rule.inputs()) {
    if (input.kind != ir::InputKind::Grad) continue;
    if (++gradients > 1)
      return with_hint(
          fail(StatusCode::InvalidData, "rule {}: %{} is a second grad; a rule has at most one", rule.name, input.name),
          "declare it as a state");
    if (input.type.shape != shape)
      return with_hint(fail(StatusCode::InvalidData, "rule {}: %{}: the grad must have the shape of the param, {}",
                            rule.name, input.name, shape_text(rule, shape)),
                       "declare the grad like the param");
  }
  return {};
}

Result<Graph> checked(const Graph& rule) {
  STEPFUSE_TRY(check_gradients(rule));
  return rule;
}

}  // namespace

bool is_shape_free(const Graph& rule) {
  const Shape& shape = param_of(rule).type.shape;
  bool symbolic = false;
  for (size_t i = 0; i < shape.rank; ++i) symbolic = symbolic || shape.dims[i].is_symbol();
  if (!symbolic) return false;
  const std::vector<bool> live = ir::live_values(rule);
  for (uint32_t i = 0; i < rule.size(); ++i) {
    const Node& node = rule.node(ValueId{i});
    if (node.type.scalar || !live[i]) continue;
    if (node.op != ir::Op::Input && !ir::is_elementwise(node.op)) return false;
    if (node.type.shape != shape) return false;
  }
  return true;
}

Result<Graph> specialise(const Graph& rule, const std::vector<int64_t>& shape) {
  const bool shape_free = is_shape_free(rule);
  const bool flat = param_of(rule).type.shape.rank == 1;
  if (shape_free && flat) return checked(rule);
  STEPFUSE_ASSIGN(const auto extents, match_shape(rule, shape));
  if (shape_free) return checked(rule);
  return rebuild(rule, [&](const Shape& declared) { return substitute(rule, declared, extents); }).and_then(checked);
}

Result<Graph> make_concrete(const Graph& rule, const std::vector<int64_t>& extents) {
  Shape shape;
  shape.rank = static_cast<uint8_t>(extents.size());
  for (size_t i = 0; i < extents.size(); ++i) shape.dims[i] = Extent::of(extents[i]);
  Graph live = rule;  // what nothing depends on may have other shapes
  ir::rewrite(live, [](Graph&, ValueId, std::span<const ValueId>) { return std::optional<ValueId>(); });
  return rebuild(live, [&](const Shape&) -> Result<Shape> { return shape; }).and_then(checked);
}

std::string signature(const Graph& rule) {
  std::string text = ir::structural_hash(rule).hex();
  // Members look their hyperparameters up by name and check them against one range.
  for (const Input& input : rule.inputs()) text += fmt::format(" {} {}", input.name, ir::interval_text(input.range));
  return text;
}

}  // namespace stepfuse::compiler
