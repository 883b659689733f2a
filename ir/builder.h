// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::ir {

/// Writes a recipe the way a paper does. Element types that are not given are inferred; the last argument of an op
/// names its value. A combination that cannot be typed is a fault of the recipe (InternalError).
class Builder {
 public:
  explicit Builder(std::string recipe_name) { graph_.name = std::move(recipe_name); }

  Extent symbol(const std::string& name) { return Extent::symbol(graph_.add_symbol(name)); }
  ValueId param(std::string name, DType dtype, const Shape& shape);
  ValueId grad(std::string name, DType dtype, const Shape& shape);
  ValueId state(std::string name, std::string key, DType dtype, const Shape& shape);
  ValueId step(std::string name);
  ValueId hyper(std::string name, double value, const Interval& range);
  ValueId constant(double value) { return graph_.add_const(value); }

  ValueId op(Op op, std::initializer_list<ValueId> operands, std::string_view name = {},
             std::optional<DType> dtype = std::nullopt);
  ValueId reduce(Op op, ValueId operand, Axis axis, std::string_view name = {},
                 std::optional<DType> dtype = std::nullopt);
  ValueId matmul(ValueId a, ValueId b, const MatmulAttr& flags, std::string_view name, DType dtype);

  ValueId add(ValueId a, ValueId b, std::string_view name = {}) { return op(Op::Add, {a, b}, name); }
  ValueId sub(ValueId a, ValueId b, std::string_view name = {}) { return op(Op::Sub, {a, b}, name); }
  ValueId mul(ValueId a, ValueId b, std::string_view name = {}) { return op(Op::Mul, {a, b}, name); }
  ValueId div(ValueId a, ValueId b, std::string_view name = {}) { return op(Op::Div, {a, b}, name); }
  ValueId neg(ValueId a, std::string_view name = {}) { return op(Op::Neg, {a}, name); }
  ValueId sqrt(ValueId a, std::string_view name = {}) { return op(Op::Sqrt, {a}, name); }
  ValueId axpy(ValueId alpha, ValueId x, ValueId y, std::string_view name = {}) {
    return op(Op::Axpy, {alpha, x, y}, name);
  }

  DType dtype(ValueId id) const { return graph_.node(id).type.dtype; }

  /// `value` replaces the param or state `target`.
  void replace(ValueId target, ValueId value) { graph_.add_output(value, target); }
  Graph take() { return std::move(graph_); }

 private:
  ValueId input(InputKind kind, std::string name, std::string key, const Type& type);
  Graph graph_;
};

}  // namespace stepfuse::ir
