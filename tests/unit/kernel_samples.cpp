// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernel_samples.h"

namespace stepfuse::test {

using codegen::Instr;
using codegen::KernelArg;
using codegen::KernelSpec;
using codegen::Operand;
using codegen::Scheme;
using codegen::Varies;
using ir::DType;
using ir::Op;

namespace {
DType result_type(Op op, DType dtype) {
  return ir::is_compare(op) || ir::is_bool_logic(op) || op == Op::IsFinite ? DType::Bool : dtype;
}
}  // namespace

Operand arg(uint32_t i) { return {Operand::Kind::Arg, i, 0}; }
Operand instr(uint32_t i) { return {Operand::Kind::Instr, i, 0}; }
Operand scalar(uint32_t i) { return {Operand::Kind::Scalar, i, 0}; }
Operand constant(double value) { return {Operand::Kind::Const, 0, value}; }

KernelSpec strict_spec(Scheme scheme, bool contiguous) {
  KernelSpec spec;
  spec.name = "stepfuse_test";
  spec.scheme = scheme;
  spec.contiguous = contiguous;
  spec.mode = ir::Mode::Strict;
  return spec;
}

KernelArg input(DType dtype, Varies varies) { return {"in", dtype, varies, true, false}; }
KernelArg output(DType dtype, Varies varies) { return {"out", dtype, varies, false, true}; }

KernelSpec op_spec(Op op, DType dtype, Scheme scheme, bool contiguous, bool with_scalar) {
  KernelSpec spec = strict_spec(scheme, contiguous);
  Instr body{"r", op, result_type(op, dtype), ir::math_dtype(dtype), kAll, {}};
  const auto arity = static_cast<uint32_t>(ir::op_info(op).arity_min);
  for (uint32_t i = 0; i < arity; ++i) {
    const bool truth = ir::is_bool_logic(op) || (op == Op::Select && i == 0);
    if (with_scalar && i + 1 == arity && arity > 1 && !truth) {
      body.operands.push_back(scalar(spec.num_scalars++));
      continue;
    }
    body.operands.push_back(arg(static_cast<uint32_t>(spec.args.size())));
    spec.args.push_back(input(truth ? DType::Bool : dtype));
  }
  spec.stores.push_back({instr(0), static_cast<uint32_t>(spec.args.size())});
  spec.args.push_back(output(body.dtype));
  spec.instrs.push_back(body);
  return spec;
}

std::vector<Op> elementwise_ops() {
  std::vector<Op> ops;
  for (const ir::OpInfo& info : ir::all_ops()) {
    if (info.family == ir::OpFamily::Elementwise) ops.push_back(info.op);
  }
  return ops;
}

KernelSpec broadcast_spec(Scheme scheme) {
  KernelSpec spec = strict_spec(scheme, false);
  spec.num_scalars = 1;
  const Varies row{true, true, false};
  const Varies col{true, false, true};
  const Varies unit{true, false, false};
  const Varies shared_col{false, false, true};
  spec.args = {input(DType::F32),         input(DType::F32, row),         input(DType::BF16, col),
               input(DType::F32, unit),   input(DType::F32, kNone),       output(DType::F32),
               output(DType::F32, row),   output(DType::F32, col),        output(DType::F32, unit),
               output(DType::F32, kNone), output(DType::F32, shared_col), input(DType::F32, shared_col)};
  const auto op = [](const char* name, Op which, Varies varies, std::vector<Operand> operands) {
    return Instr{name, which, DType::F32, DType::F32, varies, std::move(operands)};
  };
  spec.instrs = {
      op("once", Op::Mul, kNone, {arg(4), scalar(0)}),         op("per_unit", Op::Add, unit, {arg(3), instr(0)}),
      op("per_row", Op::Mul, row, {arg(1), instr(1)}),         op("per_col", Op::Sub, col, {arg(2), instr(1)}),
      op("all", Op::Axpy, kAll, {arg(0), instr(2), instr(3)}), op("shared", Op::Mul, shared_col, {arg(11), instr(0)})};
  spec.stores = {{instr(4), 5}, {instr(2), 6}, {instr(3), 7}, {instr(1), 8}, {instr(0), 9}, {instr(5), 10}};
  spec.reductions = {{"total", Op::Sum, DType::F32, instr(4)},
                     {"rows", Op::SumSq, DType::F64, instr(2)},
                     {"cols", Op::Amax, DType::F32, instr(3)},
                     {"many", Op::Sum, DType::F32, constant(1.5)}};
  return spec;
}

KernelSpec adamw_spec(ir::Mode mode) {
  KernelSpec spec = strict_spec(Scheme::Linear, true);
  spec.name = "stepfuse_adamw_f32";
  spec.mode = mode;
  spec.num_scalars = 7;
  spec.args = {{"p", DType::F32, kAll, true, true},
               {"g", DType::F32, kAll, true, false},
               {"m", DType::F32, kAll, true, true},
               {"v", DType::F32, kAll, true, true}};
  const auto op = [](const char* name, Op which, std::vector<Operand> operands) {
    return Instr{name, which, DType::F32, DType::F32, kAll, std::move(operands)};
  };
  spec.instrs = {op("p1", Op::Mul, {arg(0), scalar(0)}),
                 op("m1", Op::Lerp, {arg(2), arg(1), scalar(1)}),
                 op("v0", Op::Mul, {arg(3), scalar(2)}),
                 op("v1", Op::Addcmul, {instr(2), scalar(3), arg(1), arg(1)}),
                 op("root", Op::Sqrt, {instr(3)}),
                 op("scaled", Op::Div, {instr(4), scalar(5)}),
                 op("denom", Op::Add, {instr(5), scalar(6)}),
                 op("p2", Op::Addcdiv, {instr(0), scalar(4), instr(1), instr(6)})};
  spec.stores = {{instr(7), 0}, {instr(1), 2}, {instr(3), 3}};
  return spec;
}

}  // namespace stepfuse::test
