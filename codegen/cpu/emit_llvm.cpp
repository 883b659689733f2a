// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/emit_llvm.h"

#include "codegen/check_spec.h"
#include "codegen/cpu/check_target.h"
#include "codegen/cpu/schemes.h"

#include <llvm/IR/Attributes.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>

namespace stepfuse::codegen {

namespace {

void add_attributes(llvm::Function& function, const LlvmTarget& target) {
  const std::string bits = std::to_string(target.vector_bytes * 8);
  function.addFnAttr(llvm::Attribute::NoUnwind);
  function.addFnAttr("target-cpu", "x86-64");
  function.addFnAttr("target-features", target.features);
  function.addFnAttr("prefer-vector-width", bits);
  function.addFnAttr("min-legal-vector-width", bits);
  // Keeps LLVM from turning loops into calls of memset and memcpy: the object must not need anything.
  function.addFnAttr("no-builtins");
  function.addParamAttr(0, llvm::Attribute::NoAlias);
  function.addParamAttr(0, llvm::Attribute::ReadOnly);
}

llvm::Function* declare(llvm::Module& module, const KernelSpec& spec, const LlvmTarget& target) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  llvm::Type* ptr = llvm::PointerType::getUnqual(context);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {ptr, i64, i64, i64}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, spec.name, module);
  function->setDSOLocal(true);
  add_attributes(*function, target);
  constexpr std::array kNames{"call", "unit", "begin", "end"};
  for (unsigned i = 0; i < kNames.size(); ++i) function->getArg(i)->setName(kNames[i]);
  return function;
}

}  // namespace

Result<std::unique_ptr<llvm::Module>> emit_llvm(llvm::LLVMContext& context, const KernelSpec& spec,
                                                const LlvmTarget& target) {
  STEPFUSE_TRY(check_spec(spec));
  STEPFUSE_TRY(check_target(spec, target));
  auto module = std::make_unique<llvm::Module>(spec.name, context);
  module->setTargetTriple(target.triple);
  llvm::Function* function = declare(*module, spec, target);
  Builder b(llvm::BasicBlock::Create(context, "entry", function));
  if (spec.mode == ir::Mode::Default) {
    llvm::FastMathFlags flags;
    flags.setAllowContract();
    b.setFastMathFlags(flags);
  }
  // One lane per f32 element of a register; f64 takes two registers for as many lanes.
  emit_scheme(b, spec, load_frame(b, spec, function), static_cast<unsigned>(target.vector_bytes) / 4);
  b.CreateRetVoid();
  return module;
}

}  // namespace stepfuse::codegen
