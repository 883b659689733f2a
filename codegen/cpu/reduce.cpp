// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/reduce.h"

#include "codegen/cpu/convert.h"
#include "codegen/cpu/lower_op.h"

#include <array>

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>

namespace stepfuse::codegen {

namespace {

using ir::Op;

constexpr uint64_t kVectorAlign = 64;

llvm::Type* accumulator_type(Builder& b, const Reduction& reduction) {
  return reduction.op == Op::Any ? b.getInt32Ty() : math_type(b, reduction.math);
}

}  // namespace

Accumulator::Accumulator(Builder& b, const Reduction& reduction, unsigned columns)
    : op_(reduction.op), element_(accumulator_type(b, reduction)) {
  llvm::AllocaInst* slot = b.CreateAlloca(llvm::ArrayType::get(element_, static_cast<uint64_t>(kLanes) * columns),
                                          nullptr, reduction.name + ".lanes");
  slot->setAlignment(llvm::Align(kVectorAlign));
  slot_ = slot;
}

llvm::Value* Accumulator::lane_address(Builder& b, llvm::Value* lane, unsigned columns) const {
  return b.CreateInBoundsGEP(element_, slot_, mul(b, lane, int64(b, columns)));
}

void Accumulator::clear(Builder& b, unsigned columns) const {
  if (columns == 1) {
    llvm::Type* all = with_width(element_, static_cast<unsigned>(kLanes));
    b.CreateAlignedStore(llvm::Constant::getNullValue(all), slot_, llvm::Align(kVectorAlign));
    return;
  }
  llvm::Constant* zero = llvm::Constant::getNullValue(with_width(element_, columns));
  emit_for(b, int64(b, 0), int64(b, kLanes), 1, "clear",
           [&](llvm::Value* lane) { b.CreateAlignedStore(zero, lane_address(b, lane, columns), llvm::Align(4)); });
}

void Accumulator::add(Builder& b, llvm::Value* lane, unsigned columns, llvm::Value* value) const {
  llvm::Value* address = lane_address(b, lane, columns);
  llvm::Type* type = with_width(element_, width_of(value));
  llvm::Value* old = b.CreateAlignedLoad(type, address, llvm::Align(4));
  llvm::Value* joined = nullptr;
  if (op_ == Op::SumSq || op_ == Op::Norm) {
    joined = b.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {value, value, old});
  } else if (op_ == Op::Amax) {
    joined = combine(b, old, b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value));
  } else {
    joined = combine(b, old, op_ == Op::Any ? b.CreateZExt(value, type) : value);
  }
  b.CreateAlignedStore(joined, address, llvm::Align(4));
}

llvm::Value* Accumulator::combine(Builder& b, llvm::Value* x, llvm::Value* y) const {
  if (op_ == Op::Any) return b.CreateOr(x, y);
  if (op_ == Op::Amax) return lower_op(b, Op::Max, std::array{x, y});
  return b.CreateFAdd(x, y);
}

llvm::Value* Accumulator::as_partial(Builder& b, llvm::Value* x) const {
  llvm::Type* type = with_width(b.getDoubleTy(), width_of(x));
  return op_ == Op::Any ? b.CreateUIToFP(x, type) : b.CreateFPCast(x, type);
}

llvm::Value* Accumulator::fold_one_vector(Builder& b) const {
  llvm::Type* all = with_width(element_, static_cast<unsigned>(kLanes));
  llvm::Value* lanes = b.CreateAlignedLoad(all, slot_, llvm::Align(kVectorAlign));
  for (int half = static_cast<int>(kLanes) / 2; half >= 1; half /= 2) {
    llvm::SmallVector<int, 32> low;
    llvm::SmallVector<int, 32> high;
    for (int l = 0; l < half; ++l) {
      low.push_back(l);
      high.push_back(l + half);
    }
    lanes = combine(b, b.CreateShuffleVector(lanes, low), b.CreateShuffleVector(lanes, high));
  }
  return b.CreateExtractElement(lanes, uint64_t{0});
}

llvm::Value* Accumulator::fold_lanes_of_columns(Builder& b, unsigned columns) const {
  llvm::Type* type = with_width(element_, columns);
  constexpr int kHalvings = 6;
  static_assert(kLanes == 1 << kHalvings);
  emit_for(b, int64(b, 1), int64(b, kHalvings + 1), 1, "halving", [&](llvm::Value* step) {
    llvm::Value* half = b.CreateLShr(int64(b, kLanes), step);
    emit_for(b, int64(b, 0), half, 1, "fold", [&](llvm::Value* lane) {
      llvm::Value* low = lane_address(b, lane, columns);
      llvm::Value* high = lane_address(b, stepfuse::codegen::add(b, lane, half), columns);
      llvm::Value* x = b.CreateAlignedLoad(type, low, llvm::Align(4));
      llvm::Value* y = b.CreateAlignedLoad(type, high, llvm::Align(4));
      b.CreateAlignedStore(combine(b, x, y), low, llvm::Align(4));
    });
  });
  return b.CreateAlignedLoad(type, slot_, llvm::Align(4));
}

llvm::Value* Accumulator::finish(Builder& b, unsigned columns) const {
  return as_partial(b, columns == 1 ? fold_one_vector(b) : fold_lanes_of_columns(b, columns));
}

}  // namespace stepfuse::codegen
