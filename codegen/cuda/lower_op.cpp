// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/lower_op.h"

#include <limits>

namespace stepfuse::codegen {

namespace {

using ir::Op;
using Operands = std::span<const std::string>;

std::string call(std::string_view function, Operands v) {
  std::string text(function);
  for (size_t i = 0; i < v.size(); ++i) text += (i == 0 ? "(" : ", ") + v[i];
  return text + ")";
}

std::string infix(std::string_view symbol, Operands v) { return fmt::format("{} {} {}", v[0], symbol, v[1]); }

/// A helper that exists for float and for double.
std::string helper(std::string_view name, CudaHelper f32, CudaHelper f64, const Arithmetic& math, Operands v,
                   CudaHelpers& helpers) {
  helpers.use(math.math() == ir::DType::F64 ? f64 : f32);
  return call(name, v);
}

}  // namespace

bool cuda_takes_bool(Op op, size_t index) { return ir::is_bool_logic(op) || (op == Op::Select && index == 0); }

bool cuda_gives_bool(Op op) { return ir::is_compare(op) || ir::is_bool_logic(op) || op == Op::IsFinite; }

std::string cuda_expression(Op op, const Arithmetic& math, Operands v, CudaHelpers& helpers) {
  switch (op) {
    case Op::Add:
      return math.add(v[0], v[1]);
    case Op::Sub:
      return math.sub(v[0], v[1]);
    case Op::Mul:
      return math.mul(v[0], v[1]);
    case Op::Div:
      return math.div(v[0], v[1]);
    case Op::Neg:
      return v[0].starts_with('-') ? fmt::format("-({})", v[0]) : fmt::format("-{}", v[0]);
    case Op::Abs:
      return call(math.abs(), v);
    case Op::Sign:
      return helper("sign", CudaHelper::SignFloat, CudaHelper::SignDouble, math, v, helpers);
    case Op::Sqrt:
      return math.sqrt(v[0]);
    case Op::Min:
      return helper("minimum", CudaHelper::MinimumFloat, CudaHelper::MinimumDouble, math, v, helpers);
    case Op::Max:
      return helper("maximum", CudaHelper::MaximumFloat, CudaHelper::MaximumDouble, math, v, helpers);
    case Op::Axpy:
      return call(math.fma(), v);
    case Op::Lerp:
      return helper("lerp", CudaHelper::LerpFloat, CudaHelper::LerpDouble, math, v, helpers);
    case Op::Addcmul:
      return fmt::format("{}({}, {}, {})", math.fma(), math.mul(v[1], v[2]), v[3], v[0]);
    case Op::Addcdiv:
      return math.add(v[0], math.div(math.mul(v[1], v[2]), v[3]));
    case Op::Select:
      return fmt::format("{} ? {} : {}", v[0], v[1], v[2]);
    case Op::Lt:
      return infix("<", v);
    case Op::Le:
      return infix("<=", v);
    case Op::Gt:
      return infix(">", v);
    case Op::Ge:
      return infix(">=", v);
    case Op::Eq:
      return infix("==", v);
    case Op::Ne:
      return infix("!=", v);
    case Op::And:
      return infix("&&", v);
    case Op::Or:
      return infix("||", v);
    case Op::Not:
      return "!" + v[0];
    case Op::IsFinite:
      return fmt::format("{}({}) < {}", math.abs(), v[0], math.literal(std::numeric_limits<double>::infinity()));
    case Op::Cast:
      return v[0];
    case Op::Input:
    case Op::Const:
    case Op::Powi:
    case Op::Fresh:
    case Op::Transpose:
    case Op::Slice:
    case Op::Concat:
    case Op::Sum:
    case Op::SumSq:
    case Op::Norm:
    case Op::Amax:
    case Op::Any:
    case Op::Matmul:
    case Op::AddDiag:
      break;
  }
  throw_internal(__FILE__, __LINE__, fmt::format("{} is not elementwise", ir::op_info(op).mnemonic));
}

}  // namespace stepfuse::codegen
