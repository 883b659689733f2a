// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/body.h"

#include "codegen/cpu/lower_op.h"

#include <llvm/IR/Constants.h>

namespace stepfuse::codegen {

namespace {

using ir::DType;

/// Dimensions from the slowest loop to the fastest, so that the outer parts of an address leave the inner loop.
std::array<size_t, 3> nesting(Scheme scheme) {
  return scheme == Scheme::Cols ? std::array<size_t, 3>{0, 2, 1} : std::array<size_t, 3>{0, 1, 2};
}

llvm::Align element_align(DType dtype) { return llvm::Align(static_cast<uint64_t>(ir::dtype_bytes(dtype))); }

}  // namespace

Body::Body(Builder& b, const KernelSpec& spec, const Frame& frame)
    : b_(b), spec_(spec), frame_(frame), args_(spec.args.size()), instrs_(spec.instrs.size()) {}

Level Body::level_of(const Varies& declared) const {
  const Varies varies = walked(spec_, declared);
  const std::array<size_t, 3> order = nesting(spec_.scheme);
  if (varies[order[2]]) return Level::Inner;
  // A task of Rows goes through several d0; those of the others have one.
  const bool outer = varies[order[1]] || (spec_.scheme == Scheme::Rows && varies[0]);
  return outer ? Level::Outer : Level::Task;
}

llvm::Value* Body::address(size_t arg, const Position& at) {
  const Varies varies = walked(spec_, spec_.args[arg].varies);
  llvm::Type* element = memory_type(b_, spec_.args[arg].dtype);
  llvm::Value* address = frame_.bases[arg];
  for (const size_t d : nesting(spec_.scheme)) {
    if (!varies[d]) continue;
    const bool neighbours = d == 2 && width_ > 1;
    llvm::Value* offset = neighbours ? at.index[d] : mul(b_, at.index[d], frame_.strides[arg][d]);
    address = b_.CreateInBoundsGEP(element, address, offset);
  }
  return address;
}

void Body::load(size_t arg, const Position& at) {
  const KernelArg& info = spec_.args[arg];
  llvm::Type* type = with_width(memory_type(b_, info.dtype), width_for(info.varies));
  llvm::Value* memory = b_.CreateAlignedLoad(type, address(arg, at), element_align(info.dtype), info.name);
  args_[arg] = unpack(b_, memory, info.dtype);
}

/// Register form in the operand's own type: double for scalars and constants.
llvm::Value* Body::raw(const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::Arg:
      return args_[operand.index].value;
    case Operand::Kind::Instr:
      return instrs_[operand.index].value;
    case Operand::Kind::Scalar:
      return frame_.scalars[operand.index];
    case Operand::Kind::Const:
      return llvm::ConstantFP::get(b_.getDoubleTy(), operand.value);
  }
  throw_internal(__FILE__, __LINE__, "unknown operand kind");
}

llvm::Value* Body::number(const Operand& operand, DType math, unsigned width) {
  return splat(b_, to_math(b_, raw(operand), math), width);
}

llvm::Value* Body::truth(const Operand& operand, unsigned width) { return splat(b_, to_bool(b_, raw(operand)), width); }

void Body::compute(const Instr& instr, size_t index) {
  const unsigned width = width_for(instr.varies);
  llvm::SmallVector<llvm::Value*, ir::kMaxOperands> operands;
  for (size_t i = 0; i < instr.operands.size(); ++i) {
    const Operand& operand = instr.operands[i];
    operands.push_back(takes_bool(instr.op, i) ? truth(operand, width) : number(operand, instr.math, width));
  }
  llvm::Value* result = lower_op(b_, instr.op, operands);
  if (!llvm::isa<llvm::Constant>(result)) result->setName(instr.name);
  instrs_[index] = round_to(b_, result, instr.dtype);
}

void Body::compute(Level level, const Position& at) {
  for (size_t k = 0; k < spec_.args.size(); ++k) {
    if (spec_.args[k].read && level_of(spec_.args[k].varies) == level) load(k, at);
  }
  for (size_t i = 0; i < spec_.instrs.size(); ++i) {
    if (level_of(spec_.instrs[i].varies) == level) compute(spec_.instrs[i], i);
  }
}

/// What goes to memory, as wide as the argument: without another rounding when the types agree.
llvm::Value* Body::memory_form(const Store& store) {
  const KernelArg& arg = spec_.args[store.arg];
  const unsigned width = width_for(arg.varies);
  const Operand& operand = store.value;
  if (operand.kind == Operand::Kind::Instr && instrs_[operand.index].dtype == arg.dtype) {
    return splat(b_, pack(b_, instrs_[operand.index]), width);
  }
  return splat(b_, pack(b_, round_to(b_, raw(operand), arg.dtype)), width);
}

llvm::Value* Body::owner(const Varies& declared, const Position& at) {
  const Varies varies = walked(spec_, declared);
  llvm::Value* owns = b_.getTrue();
  for (size_t d = 0; d < 3; ++d) {
    if (!varies[d]) owns = b_.CreateAnd(owns, b_.CreateICmpEQ(at.index[d], int64(b_, 0)));
  }
  return owns;
}

void Body::store(Level level, const Position& at) {
  for (const Store& store : spec_.stores) {
    const KernelArg& arg = spec_.args[store.arg];
    if (level_of(arg.varies) != level) continue;
    llvm::Value* memory = memory_form(store);
    emit_if(b_, owner(arg.varies, at), "owner",
            [&] { b_.CreateAlignedStore(memory, address(store.arg, at), element_align(arg.dtype)); });
  }
}

llvm::Value* Body::reduced_value(const Reduction& reduction) {
  if (reduction.op == ir::Op::Any) return truth(reduction.value, width_);
  return number(reduction.value, reduction.math, width_);
}

}  // namespace stepfuse::codegen
