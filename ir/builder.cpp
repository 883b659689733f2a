// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/builder.h"

namespace stepfuse::ir {

ValueId Builder::input(InputKind kind, std::string name, std::string key, const Type& type) {
  return graph_.add_input({kind, std::move(name), std::move(key), type, std::nullopt, {}, {}});
}

ValueId Builder::param(std::string name, DType dtype, const Shape& shape) {
  return input(InputKind::Param, std::move(name), {}, tensor_type(dtype, shape));
}

ValueId Builder::grad(std::string name, DType dtype, const Shape& shape) {
  return input(InputKind::Grad, std::move(name), {}, tensor_type(dtype, shape));
}

ValueId Builder::state(std::string name, std::string key, DType dtype, const Shape& shape) {
  return input(InputKind::State, std::move(name), std::move(key), tensor_type(dtype, shape));
}

ValueId Builder::step(std::string name) {
  return input(InputKind::Step, std::move(name), {}, scalar_type(Rate::Parameter));
}

ValueId Builder::hyper(std::string name, double value, const Interval& range) {
  return graph_.add_input({InputKind::Hyper, std::move(name), {}, scalar_type(Rate::Group), value, range, {}});
}

ValueId Builder::op(Op op, std::initializer_list<ValueId> operands, std::string_view name, std::optional<DType> dtype) {
  const ValueId id = emit(graph_, op, operands, {}, dtype);
  if (!name.empty()) graph_.set_name(id, std::string(name));
  return id;
}

ValueId Builder::reduce(Op op, ValueId operand, Axis axis, std::string_view name, std::optional<DType> dtype) {
  const ValueId id = emit(graph_, op, {operand}, ReduceAttr{axis}, dtype);
  if (!name.empty()) graph_.set_name(id, std::string(name));
  return id;
}

ValueId Builder::matmul(ValueId a, ValueId b, const MatmulAttr& flags, std::string_view name, DType dtype) {
  const ValueId id = emit(graph_, Op::Matmul, {a, b}, flags, dtype);
  graph_.set_name(id, std::string(name));
  return id;
}

}  // namespace stepfuse::ir
