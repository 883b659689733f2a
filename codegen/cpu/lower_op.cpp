// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/lower_op.h"

#include "codegen/cpu/convert.h"
#include "ir/support/status.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

namespace stepfuse::codegen {

namespace {

using ir::Op;

llvm::Constant* number(const llvm::Value* like, double value) { return llvm::ConstantFP::get(like->getType(), value); }

llvm::Value* fabs(Builder& b, llvm::Value* x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }

llvm::Value* fma(Builder& b, llvm::Value* x, llvm::Value* y, llvm::Value* z) {
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

/// -0 and +0 give +0; NaN goes through.
llvm::Value* sign(Builder& b, llvm::Value* x) {
  llvm::Constant* zero = number(x, 0.0);
  llvm::Value* neither = b.CreateSelect(b.CreateFCmpUNO(x, x), x, zero);
  llvm::Value* not_positive = b.CreateSelect(b.CreateFCmpOLT(x, zero), number(x, -1.0), neither);
  return b.CreateSelect(b.CreateFCmpOGT(x, zero), number(x, 1.0), not_positive);
}

/// Chooses the operands instead of the results: the same value by one fma, and the choice of the weight, usually a
/// scalar, leaves the loop.
llvm::Value* lerp(Builder& b, llvm::Value* from, llvm::Value* to, llvm::Value* weight) {
  llvm::Value* near = b.CreateFCmpOLT(fabs(b, weight), number(weight, 0.5));
  llvm::Value* factor = b.CreateSelect(near, weight, b.CreateFSub(weight, number(weight, 1.0)));
  return fma(b, factor, b.CreateFSub(to, from), b.CreateSelect(near, from, to));
}

/// `chosen`, made right for what a comparison cannot tell: equal operands are joined by their bits (so that the sign of
/// +0 and -0 is that of the greater or the smaller), and NaN goes through.
/// Not llvm.maximum, which LLVM 19 gets wrong for some types (it loses NaN in f16).
llvm::Value* extreme(Builder& b, llvm::Value* chosen, llvm::Value* x, llvm::Value* y, bool greater) {
  llvm::Type* bits = with_width(b.getIntNTy(x->getType()->getScalarSizeInBits()), width_of(x));
  llvm::Value* x_bits = b.CreateBitCast(x, bits);
  llvm::Value* y_bits = b.CreateBitCast(y, bits);
  llvm::Value* joined = greater ? b.CreateAnd(x_bits, y_bits) : b.CreateOr(x_bits, y_bits);
  llvm::Value* ordered = b.CreateSelect(b.CreateFCmpOEQ(x, y), b.CreateBitCast(joined, x->getType()), chosen);
  return b.CreateSelect(b.CreateFCmpUNO(x, y), b.CreateFAdd(x, y), ordered);
}

llvm::Value* minimum(Builder& b, llvm::Value* x, llvm::Value* y) {
  return extreme(b, b.CreateSelect(b.CreateFCmpOLT(x, y), x, y), x, y, false);
}

llvm::Value* maximum(Builder& b, llvm::Value* x, llvm::Value* y) {
  return extreme(b, b.CreateSelect(b.CreateFCmpOGT(x, y), x, y), x, y, true);
}

llvm::Value* is_finite(Builder& b, llvm::Value* x) {
  return b.CreateFCmpOLT(fabs(b, x), llvm::ConstantFP::getInfinity(x->getType()));
}

}  // namespace

bool takes_bool(Op op, size_t index) { return ir::is_bool_logic(op) || (op == Op::Select && index == 0); }

llvm::Value* lower_op(Builder& b, Op op, std::span<llvm::Value* const> v) {
  switch (op) {
    case Op::Add:
      return b.CreateFAdd(v[0], v[1]);
    case Op::Sub:
      return b.CreateFSub(v[0], v[1]);
    case Op::Mul:
      return b.CreateFMul(v[0], v[1]);
    case Op::Div:
      return b.CreateFDiv(v[0], v[1]);
    case Op::Neg:
      return b.CreateFNeg(v[0]);
    case Op::Abs:
      return fabs(b, v[0]);
    case Op::Sign:
      return sign(b, v[0]);
    case Op::Sqrt:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, v[0]);
    case Op::Min:
      return minimum(b, v[0], v[1]);
    case Op::Max:
      return maximum(b, v[0], v[1]);
    case Op::Axpy:
      return fma(b, v[0], v[1], v[2]);
    case Op::Lerp:
      return lerp(b, v[0], v[1], v[2]);
    case Op::Addcmul:
      return fma(b, b.CreateFMul(v[1], v[2]), v[3], v[0]);
    case Op::Addcdiv:
      return b.CreateFAdd(v[0], b.CreateFDiv(b.CreateFMul(v[1], v[2]), v[3]));
    case Op::Select:
      return b.CreateSelect(v[0], v[1], v[2]);
    case Op::Lt:
      return b.CreateFCmpOLT(v[0], v[1]);
    case Op::Le:
      return b.CreateFCmpOLE(v[0], v[1]);
    case Op::Gt:
      return b.CreateFCmpOGT(v[0], v[1]);
    case Op::Ge:
      return b.CreateFCmpOGE(v[0], v[1]);
    case Op::Eq:
      return b.CreateFCmpOEQ(v[0], v[1]);
    case Op::Ne:
      return b.CreateFCmpUNE(v[0], v[1]);
    case Op::And:
      return b.CreateAnd(v[0], v[1]);
    case Op::Or:
      return b.CreateOr(v[0], v[1]);
    case Op::Not:
      return b.CreateNot(v[0]);
    case Op::IsFinite:
      return is_finite(b, v[0]);
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
