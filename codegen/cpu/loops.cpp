// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/loops.h"

#include <llvm/ADT/Twine.h>
#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>

namespace stepfuse::codegen {

namespace {
llvm::BasicBlock* new_block(Builder& b, const llvm::Twine& name) {
  return llvm::BasicBlock::Create(b.getContext(), name, b.GetInsertBlock()->getParent());
}
}  // namespace

llvm::ConstantInt* int64(Builder& b, int64_t value) { return b.getInt64(static_cast<uint64_t>(value)); }

llvm::Value* add(Builder& b, llvm::Value* x, llvm::Value* y) { return b.CreateAdd(x, y, "", true, true); }
llvm::Value* sub(Builder& b, llvm::Value* x, llvm::Value* y) { return b.CreateSub(x, y, "", true, true); }
llvm::Value* mul(Builder& b, llvm::Value* x, llvm::Value* y) { return b.CreateMul(x, y, "", false, true); }

llvm::Value* smaller(Builder& b, llvm::Value* x, llvm::Value* y) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
}

llvm::Value* round_down(Builder& b, llvm::Value* x, int64_t unit) { return b.CreateAnd(x, int64(b, -unit)); }

void emit_loop(Builder& b, llvm::Value* begin, llvm::Value* end, const char* name,
               const std::function<llvm::Value*(llvm::Value*)>& body) {
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::BasicBlock* head = new_block(b, name);
  llvm::BasicBlock* inside = new_block(b, llvm::Twine(name) + ".body");
  llvm::BasicBlock* after = new_block(b, llvm::Twine(name) + ".end");
  b.CreateBr(head);
  b.SetInsertPoint(head);
  llvm::PHINode* index = b.CreatePHI(b.getInt64Ty(), 2, name);
  index->addIncoming(begin, before);
  b.CreateCondBr(b.CreateICmpSLT(index, end), inside, after);
  b.SetInsertPoint(inside);
  llvm::Value* next = body(index);
  index->addIncoming(next, b.GetInsertBlock());
  b.CreateBr(head);
  b.SetInsertPoint(after);
}

void emit_for(Builder& b, llvm::Value* begin, llvm::Value* end, int64_t step, const char* name,
              const std::function<void(llvm::Value*)>& body) {
  emit_loop(b, begin, end, name, [&](llvm::Value* index) {
    body(index);
    return add(b, index, int64(b, step));
  });
}

void emit_if(Builder& b, llvm::Value* condition, const char* name, const std::function<void()>& then,
             const std::function<void()>& otherwise) {
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (known->isOne()) return then();
    return otherwise ? otherwise() : void();
  }
  llvm::BasicBlock* taken = new_block(b, llvm::Twine(name) + ".then");
  llvm::BasicBlock* other = otherwise ? new_block(b, llvm::Twine(name) + ".else") : nullptr;
  llvm::BasicBlock* after = new_block(b, llvm::Twine(name) + ".end");
  b.CreateCondBr(condition, taken, other ? other : after);
  b.SetInsertPoint(taken);
  then();
  b.CreateBr(after);
  if (other) {
    b.SetInsertPoint(other);
    otherwise();
    b.CreateBr(after);
  }
  b.SetInsertPoint(after);
}

}  // namespace stepfuse::codegen
