// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/emit_llvm.h"
#include "ir/support/version.h"
#include "runtime/cpu/jit.h"
#include "runtime/cpu/plugin_override.h"

#include <cstring>
#include <mutex>
#include <stdexcept>

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>

namespace stepfuse::runtime {

namespace {

std::string text_of(llvm::Error error) { return llvm::toString(std::move(error)); }

codegen::LlvmTarget llvm_target(const CpuTarget& target) {
  return {target.name, target.triple, target.llvm_features, target.vector_bytes, target.fma, target.f16c};
}

/// The kernel's own text on top of generated text, one comment per line.
std::string with_header(const codegen::KernelSpec& spec, const char* comment, std::string_view text) {
  std::string out;
  const std::string header = codegen::print(spec);
  for (size_t at = 0; at < header.size();) {
    const size_t end = header.find('\n', at);
    out += fmt::format("{} {}\n", comment, std::string_view(header).substr(at, end - at));
    at = end + 1;
  }
  return out.append("\n").append(text);
}

/// Everything one compilation needs, with a context of its own: compilations share nothing.
class Compilation {
 public:
  explicit Compilation(const CompileRequest& request) : request_(request) {
    context_.setDiagnosticHandlerCallBack(&Compilation::note, this);
  }

  Result<CompiledKernel> run() {
    STEPFUSE_TRY(make_machine());
    STEPFUSE_TRY(overridden() ? read_replacement() : make_module());
    CompiledKernel kernel;
    if (request_.want_llvm_ir) kernel.llvm_ir = with_header(*request_.spec, ";", module_text());
    if (request_.want_assembly) {
      STEPFUSE_ASSIGN(const std::string assembly, generate(llvm::CodeGenFileType::AssemblyFile));
      kernel.assembly = with_header(*request_.spec, "#", assembly);
    }
    STEPFUSE_ASSIGN(const std::string object, generate(llvm::CodeGenFileType::ObjectFile));
    const auto* bytes = reinterpret_cast<const std::byte*>(object.data());
    kernel.object.assign(bytes, bytes + object.size());
    return kernel;
  }

 private:
  static void note(const llvm::DiagnosticInfo* info, void* self) {
    if (info->getSeverity() != llvm::DS_Error) return;
    llvm::raw_string_ostream stream(static_cast<Compilation*>(self)->errors_);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info->print(printer);
    stream << '\n';
  }

  bool overridden() const { return !request_.replacement.text.empty(); }

  tl::unexpected<Status> broken(const std::string& what) const {
    if (overridden()) return fail(StatusCode::InvalidData, "{}: LLVM refuses it: {}", request_.replacement.file, what);
    return fail(StatusCode::Internal, "LLVM refused kernel {}: {}", request_.spec->name, what);
  }

  Outcome make_module() {
    STEPFUSE_ASSIGN(module_, codegen::emit_llvm(context_, *request_.spec, llvm_target(request_.target)));
    module_->setDataLayout(machine_->createDataLayout());
    STEPFUSE_TRY(verify());
    return optimise();
  }

  Outcome read_replacement() {
    STEPFUSE_ASSIGN(module_,
                    read_override(context_, request_.replacement, *request_.spec, llvm_target(request_.target)));
    module_->setDataLayout(machine_->createDataLayout());
    return {};
  }

  Outcome make_machine() {
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(request_.target.triple, error);
    if (target == nullptr) return fail(StatusCode::Environment, "LLVM has no backend for this target: {}", error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // only where an instruction says `contract`
    machine_.reset(target->createTargetMachine(request_.target.triple, "x86-64", request_.target.llvm_features, options,
                                               llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                               llvm::CodeGenOptLevel::Default));
    if (machine_ == nullptr) return fail(StatusCode::Environment, "LLVM cannot make code for {}", request_.target.name);
    return {};
  }

  Outcome verify() const {
    std::string problems;
    llvm::raw_string_ostream stream(problems);
    if (llvm::verifyModule(*module_, &stream)) return broken(problems);
    return {};
  }

  /// The part of LLVM's pipeline that matters here: vectors are explicit, calls there are none, and unrolling would
  /// only cost time. The default one gives the same code for AdamW, slower.
  static constexpr const char* kPasses =
      "function(early-cse<memssa>,instcombine,simplifycfg,loop-mssa(loop-rotate,licm),early-cse<memssa>,instcombine,"
      "loop-mssa(licm),simplifycfg)";

  Outcome optimise() {
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager call_graph;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder builder(machine_.get());
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(call_graph);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, call_graph, modules);
    llvm::ModulePassManager passes;
    if (auto error = builder.parsePassPipeline(passes, kPasses)) return broken(text_of(std::move(error)));
    passes.run(*module_, modules);
    return {};
  }

  std::string module_text() const {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module_->print(stream, nullptr);
    return text;
  }

  /// Code generation changes the module, so text and object come from one copy each.
  Result<std::string> generate(llvm::CodeGenFileType type) {
    const auto copy = llvm::CloneModule(*module_);
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream stream(bytes);
    llvm::legacy::PassManager passes;
    if (machine_->addPassesToEmitFile(passes, stream, nullptr, type)) return broken("it cannot write this file type");
    passes.run(*copy);
    if (!errors_.empty()) return broken(errors_);
    return std::string(bytes.begin(), bytes.end());
  }

  const CompileRequest& request_;
  llvm::LLVMContext context_;
  std::string errors_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<llvm::Module> module_;
};

/// LLVM's backend ends the process when it meets IR that is legal but that it has no instructions for, such as an
/// intrinsic of another CPU. Generated kernels hold no such thing; what a person wrote may, and must not take the
/// program along. The handler is the process's only one, so it stands for one compilation at a time.
class FatalErrorsThrow {
 public:
  FatalErrorsThrow() : lock_(mutex()) { llvm::install_fatal_error_handler(&FatalErrorsThrow::raise); }
  ~FatalErrorsThrow() { llvm::remove_fatal_error_handler(); }
  FatalErrorsThrow(const FatalErrorsThrow&) = delete;
  FatalErrorsThrow& operator=(const FatalErrorsThrow&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static void raise(void*, const char* reason, bool) { throw std::runtime_error(reason); }

  std::lock_guard<std::mutex> lock_;
};

class LlvmCompiler final : public CpuCompiler {
 public:
  LlvmCompiler() {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  }

  Result<CompiledKernel> compile(const CompileRequest& request) const override {
    if (request.replacement.text.empty()) return guarded([&] { return Compilation(request).run(); });
    const FatalErrorsThrow fatal_errors_throw;
    auto kernel = guarded([&] { return Compilation(request).run(); });
    if (!kernel && kernel.error().code == StatusCode::Internal)
      return fail(StatusCode::InvalidData, "{}: {}", request.replacement.file, kernel.error().message);
    return kernel;
  }

  std::string version() const override { return "LLVM " LLVM_VERSION_STRING; }

 private:
  /// LLVM and the caller must not see each other's exceptions.
  template <class F>
  static auto guarded(F&& work) -> decltype(work()) {
    try {
      return work();
    } catch (const std::exception& error) {
      return fail(StatusCode::Internal, "the CPU compiler failed: {}", error.what());
    }
  }
};

}  // namespace

}  // namespace stepfuse::runtime

/// The plugin's one symbol. A plugin and a library of different builds do not agree on the interface: no compiler then.
extern "C" __attribute__((visibility("default"))) const stepfuse::runtime::CpuCompiler* stepfuse_cpu_plugin_v2(
    const char* build_id) {
  if (build_id == nullptr || std::strcmp(build_id, stepfuse::kGitDescribe) != 0) return nullptr;
  static const stepfuse::runtime::LlvmCompiler compiler;
  return &compiler;
}
