// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/convert.h"

#include "ir/support/status.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>

namespace stepfuse::codegen {

namespace {

using ir::DType;

llvm::Type* like(llvm::Type* element, const llvm::Value* value) { return with_width(element, width_of(value)); }

llvm::Constant* int_like(llvm::Value* value, uint64_t constant) {
  return llvm::ConstantInt::get(value->getType(), constant);
}

llvm::Value* widen_bf16(Builder& b, llvm::Value* bits) {
  llvm::Value* wide = b.CreateZExt(bits, like(b.getInt32Ty(), bits));
  return b.CreateBitCast(b.CreateShl(wide, int_like(wide, 16)), like(b.getFloatTy(), bits));
}

/// Keeps LLVM from moving arithmetic across a conversion: it likes to compute in f16 when operands come from there,
/// which without f16 arithmetic units means one element at a time.
llvm::Value* fence(Builder& b, llvm::Value* x) {
  return b.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {x->getType()}, {x});
}

llvm::Value* widen_f16(Builder& b, llvm::Value* bits) {
  return fence(b, b.CreateFPExt(b.CreateBitCast(bits, like(b.getHalfTy(), bits)), like(b.getFloatTy(), bits)));
}

/// Adds half of the last kept bit, less one unless that bit is odd: ties go to even, a carry moves up the exponent and
/// ends at infinity, and subnormals are nothing special. NaN must not carry: it keeps its top bits and becomes quiet.
llvm::Value* bf16_bits(Builder& b, llvm::Value* x) {
  llvm::Value* bits = b.CreateBitCast(x, like(b.getInt32Ty(), x));
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(bits, int_like(bits, 16)), int_like(bits, 1));
  llvm::Value* rounded = b.CreateAdd(b.CreateAdd(bits, int_like(bits, 0x7fff)), odd);
  llvm::Value* quiet = b.CreateOr(bits, int_like(bits, 0x400000));
  llvm::Value* chosen = b.CreateSelect(b.CreateFCmpUNO(x, x), quiet, rounded);
  return b.CreateTrunc(b.CreateLShr(chosen, int_like(bits, 16)), like(b.getInt16Ty(), x));
}

llvm::Value* f16_bits(Builder& b, llvm::Value* x) {
  return b.CreateBitCast(b.CreateFPTrunc(fence(b, x), like(b.getHalfTy(), x)), like(b.getInt16Ty(), x));
}

/// f64 to f32 towards zero with the last bit set when anything was lost (round to odd). The float has more than two
/// bits to spare over a 16-bit type, so rounding it again gives what one rounding of the double would.
llvm::Value* narrow_to_odd(Builder& b, llvm::Value* x) {
  llvm::Value* nearest = b.CreateFPTrunc(x, like(b.getFloatTy(), x));
  llvm::Value* back = b.CreateFPExt(nearest, x->getType());
  llvm::Value* bits = b.CreateBitCast(nearest, like(b.getInt32Ty(), x));
  llvm::Value* away = b.CreateFCmpOGT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                      b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x));
  llvm::Value* lost = b.CreateFCmpONE(back, x);
  llvm::Value* toward_zero = b.CreateSub(bits, b.CreateZExt(away, bits->getType()));
  llvm::Value* odd = b.CreateOr(toward_zero, b.CreateZExt(lost, bits->getType()));
  return b.CreateBitCast(odd, nearest->getType());
}

Lanes round_to_16(Builder& b, llvm::Value* value, DType dtype) {
  llvm::Value* x = value->getType()->getScalarType()->isDoubleTy() ? narrow_to_odd(b, value) : value;
  llvm::Value* bits = dtype == DType::BF16 ? bf16_bits(b, x) : f16_bits(b, x);
  return unpack(b, bits, dtype);
}

}  // namespace

unsigned width_of(const llvm::Value* value) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return type ? type->getNumElements() : 1;
}

llvm::Type* with_width(llvm::Type* element, unsigned width) {
  return width == 1 ? element : llvm::FixedVectorType::get(element, width);
}

llvm::Value* splat(Builder& b, llvm::Value* value, unsigned width) {
  return width_of(value) == width ? value : b.CreateVectorSplat(width, value);
}

llvm::Type* memory_type(Builder& b, DType dtype) {
  switch (dtype) {
    case DType::F64:
      return b.getDoubleTy();
    case DType::F32:
      return b.getFloatTy();
    case DType::F16:
    case DType::BF16:
      return b.getInt16Ty();
    case DType::Bool:
      return b.getInt8Ty();
  }
  throw_internal(__FILE__, __LINE__, "unknown dtype");
}

llvm::Type* math_type(Builder& b, DType math) { return math == DType::F64 ? b.getDoubleTy() : b.getFloatTy(); }

Lanes unpack(Builder& b, llvm::Value* memory, DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::F32:
      return {memory, dtype};
    case DType::F16:
      return {widen_f16(b, memory), dtype, memory};
    case DType::BF16:
      return {widen_bf16(b, memory), dtype, memory};
    case DType::Bool:
      return {b.CreateICmpNE(memory, int_like(memory, 0)), dtype};
  }
  throw_internal(__FILE__, __LINE__, "unknown dtype");
}

llvm::Value* pack(Builder& b, const Lanes& lanes) {
  switch (lanes.dtype) {
    case DType::F64:
    case DType::F32:
      return lanes.value;
    case DType::F16:
    case DType::BF16:
      return lanes.packed;
    case DType::Bool:
      return b.CreateZExt(lanes.value, like(b.getInt8Ty(), lanes.value));
  }
  throw_internal(__FILE__, __LINE__, "unknown dtype");
}

llvm::Value* to_math(Builder& b, llvm::Value* value, DType math) {
  llvm::Type* type = like(math_type(b, math), value);
  if (value->getType()->isIntOrIntVectorTy(1)) return b.CreateUIToFP(value, type);
  return b.CreateFPCast(value, type);
}

llvm::Value* to_bool(Builder& b, llvm::Value* value) {
  if (value->getType()->isIntOrIntVectorTy(1)) return value;
  return b.CreateFCmpUNE(value, llvm::Constant::getNullValue(value->getType()));
}

Lanes round_to(Builder& b, llvm::Value* value, DType dtype) {
  if (dtype == DType::Bool) return {to_bool(b, value), dtype};
  if (dtype == DType::F64 || dtype == DType::F32) return {to_math(b, value, dtype), dtype};
  if (value->getType()->isIntOrIntVectorTy(1)) value = to_math(b, value, DType::F32);
  return round_to_16(b, value, dtype);
}

}  // namespace stepfuse::codegen
