// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/plugin_override.h"

#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/MemoryBufferRef.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

namespace stepfuse::runtime {

namespace {

class OverrideReader {
 public:
  OverrideReader(const LlvmIrOverride& replacement, const codegen::KernelSpec& spec, const codegen::LlvmTarget& target)
      : replacement_(replacement), spec_(spec), target_(target) {}

  Result<std::unique_ptr<llvm::Module>> run(llvm::LLVMContext& context) {
    STEPFUSE_TRY(parse(context));
    STEPFUSE_TRY(check_kernel());
    for (const llvm::GlobalVariable& global : module_->globals()) STEPFUSE_TRY(check_global(global));
    for (llvm::Function& function : *module_) STEPFUSE_TRY(prepare_function(function));
    if (!module_->alias_empty() || !module_->ifunc_empty() || !module_->getModuleInlineAsm().empty())
      return wrong("it has aliases or assembly beside its functions");
    module_->setTargetTriple(target_.triple);
    return std::move(module_);
  }

 private:
  template <class... Args>
  tl::unexpected<Status> wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return with_hint(
        fail(StatusCode::InvalidData, "{}: {}", replacement_.file, fmt::format(format, std::forward<Args>(args)...)),
        "start from what STEPFUSE_DUMP=llvm writes for this kernel");
  }

  Outcome parse(llvm::LLVMContext& context) {
    llvm::SMDiagnostic problem;
    module_ = llvm::parseAssembly(llvm::MemoryBufferRef(replacement_.text, replacement_.file), problem, context);
    if (module_ == nullptr)
      return fail(StatusCode::InvalidData, "{}:{}:{}: {}", replacement_.file, problem.getLineNo(),
                  problem.getColumnNo() + 1, problem.getMessage().str());
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (llvm::verifyModule(*module_, &stream)) return wrong("LLVM's verifier says: {}", text);
    return {};
  }

  Outcome check_kernel() const {
    const llvm::Function* kernel = module_->getFunction(spec_.name);
    if (kernel == nullptr || kernel->isDeclaration()) return wrong("it does not define @{}", spec_.name);
    llvm::LLVMContext& context = module_->getContext();
    llvm::Type* i64 = llvm::Type::getInt64Ty(context);
    const auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                               {llvm::PointerType::getUnqual(context), i64, i64, i64}, false);
    if (kernel->getFunctionType() != type || kernel->getCallingConv() != llvm::CallingConv::C)
      return wrong("@{} must be void (ptr, i64, i64, i64) with C's calling convention", spec_.name);
    if (!kernel->hasExternalLinkage()) return wrong("@{} must have external linkage", spec_.name);
    return {};
  }

  Outcome check_global(const llvm::GlobalVariable& global) const {
    const std::string name = global.getName().str();
    if (global.isDeclaration()) return wrong("it needs @{} from outside", name);
    if (!global.isConstant() || global.isThreadLocal()) return wrong("@{} is not a constant", name);
    if (!global.hasLocalLinkage()) return wrong("@{} must be private or internal", name);
    return {};
  }

  Outcome prepare_function(llvm::Function& function) const {
    if (function.isIntrinsic()) return {};
    const std::string name = function.getName().str();
    if (function.isDeclaration()) return wrong("it calls @{}, and a kernel calls nothing outside", name);
    if (name != spec_.name && !function.hasLocalLinkage()) return wrong("@{} must be private or internal", name);
    function.addFnAttr("target-cpu", "x86-64");
    function.addFnAttr("target-features", target_.features);
    function.addFnAttr("no-builtins");
    return {};
  }

  const LlvmIrOverride& replacement_;
  const codegen::KernelSpec& spec_;
  const codegen::LlvmTarget& target_;
  std::unique_ptr<llvm::Module> module_;
};

}  // namespace

Result<std::unique_ptr<llvm::Module>> read_override(llvm::LLVMContext& context, const LlvmIrOverride& replacement,
                                                    const codegen::KernelSpec& spec,
                                                    const codegen::LlvmTarget& target) {
  return OverrideReader(replacement, spec, target).run(context);
}

}  // namespace stepfuse::runtime
