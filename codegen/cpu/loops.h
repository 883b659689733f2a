// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <llvm/IR/IRBuilder.h>

namespace stepfuse::codegen {

using Builder = llvm::IRBuilder<>;

llvm::ConstantInt* int64(Builder& b, int64_t value);

// Index arithmetic: never negative and never beyond 2^63, which the flags tell LLVM.
llvm::Value* add(Builder& b, llvm::Value* x, llvm::Value* y);
llvm::Value* sub(Builder& b, llvm::Value* x, llvm::Value* y);
llvm::Value* mul(Builder& b, llvm::Value* x, llvm::Value* y);
llvm::Value* smaller(Builder& b, llvm::Value* x, llvm::Value* y);
/// x rounded down to a multiple of `unit`, a power of two.
llvm::Value* round_down(Builder& b, llvm::Value* x, int64_t unit);

/// for (i = begin; i < end; i = body(i)). The body may create blocks; the builder ends up behind the loop.
void emit_loop(Builder& b, llvm::Value* begin, llvm::Value* end, const char* name,
               const std::function<llvm::Value*(llvm::Value*)>& body);
/// for (i = begin; i < end; i += step) body(i)
void emit_for(Builder& b, llvm::Value* begin, llvm::Value* end, int64_t step, const char* name,
              const std::function<void(llvm::Value*)>& body);
/// if (condition) then(); else otherwise(); nothing is emitted for a side that a constant condition excludes.
void emit_if(Builder& b, llvm::Value* condition, const char* name, const std::function<void()>& then,
             const std::function<void()>& otherwise = {});

}  // namespace stepfuse::codegen
