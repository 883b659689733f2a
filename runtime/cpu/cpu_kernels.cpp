// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/cpu_kernels.h"

#include "runtime/cache/metadata.h"
#include "runtime/cpu/compiler_identity.h"
#include "runtime/debug/override.h"

#include <chrono>
#include <cmath>
#include <ctime>

namespace stepfuse::runtime {

namespace {

/// The metadata of a kernel entry.
std::string metadata_of(const codegen::KernelSpec& spec, const CompilerIdentity& by, size_t object_bytes,
                        double milliseconds) {
  const nlohmann::ordered_json json = {{"name", spec.name},
                                       {"symbol", spec.name},
                                       {"library", library_build()},
                                       {"compiler", by.version},
                                       {"plugin", by.plugin},
                                       {"llvm_file", by.llvm_file},
                                       {"llvm_bytes", by.llvm_bytes},
                                       {"llvm_time", by.llvm_time},
                                       {"created", static_cast<int64_t>(::time(nullptr))},
                                       {"object_bytes", object_bytes},
                                       {"compile_ms", std::round(milliseconds * 100) / 100}};
  // A path may hold any bytes.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// What an entry holds, as code.
Result<std::shared_ptr<const Kernel>> load_kernel(const Entry& entry) {
  const std::string symbol = Metadata(entry.metadata).text("symbol");
  if (symbol.empty()) return fail(StatusCode::InvalidData, "its metadata names no symbol");
  return load_object(entry.payload, symbol);
}

class CpuKernelMaker final : public KernelMaker {
 public:
  CpuKernelMaker(const Context& context, codegen::KernelSpec spec, CpuTarget target)
      : context_(context), spec_(std::move(spec)), target_(std::move(target)) {}

  std::string_view name() const override { return spec_.name; }
  KeyFields key_fields() const override { return cpu_kernel_fields(spec_, target_); }

  Result<std::shared_ptr<const Kernel>> edited(bool& made) const override {
    return override_kernel(context_, spec_, target_, &made);
  }

  std::optional<std::string> made_otherwise(const std::string& metadata) const override {
    return compiled_otherwise(metadata, plugin_dir());
  }

  Result<Compiled> compile() const override {
    const auto start = std::chrono::steady_clock::now();
    STEPFUSE_ASSIGN(const CpuCompiler* compiler, cpu_compiler(plugin_dir()));
    STEPFUSE_ASSIGN(CompiledKernel compiled, compiler->compile({&spec_, target_}));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    return Compiled{metadata_of(spec_, opened_compiler(*compiler, plugin_dir()), compiled.object.size(), took.count()),
                    std::move(compiled.object)};
  }

  Result<std::shared_ptr<const Kernel>> load(const Entry& entry) const override { return load_kernel(entry); }

 private:
  const std::string& plugin_dir() const { return context_.settings().text("plugin_dir"); }

  const Context& context_;
  const codegen::KernelSpec spec_;
  const CpuTarget target_;
};

}  // namespace

KeyFields cpu_kernel_fields(const codegen::KernelSpec& spec, const CpuTarget& target) {
  return {{"library", library_build()},
          {"triple", target.triple},
          {"features", target.llvm_features},
          {"mode", spec.mode == ir::Mode::Strict ? "strict" : "default"},
          {"kernel", codegen::identity(spec)}};
}

std::string cpu_kernel_key(const codegen::KernelSpec& spec, const CpuTarget& target) {
  return key_text(EntryKind::Kernel, cpu_kernel_fields(spec, target));
}

std::unique_ptr<KernelMaker> cpu_kernel_maker(const Context& context, codegen::KernelSpec spec, CpuTarget target) {
  return std::make_unique<CpuKernelMaker>(context, std::move(spec), std::move(target));
}

Result<FoundCpuKernel> find_cpu_kernel(KernelCache& cache, const Context& context, const codegen::KernelSpec& spec,
                                       const CpuTarget& target) {
  STEPFUSE_ASSIGN(const FoundKernel found, cache.find_or_compile(context, CpuKernelMaker(context, spec, target)));
  return FoundCpuKernel{std::static_pointer_cast<const LoadedKernel>(found.kernel), found.origin};
}

std::optional<std::string> compiled_otherwise(const std::string& metadata, std::string_view plugin_dir) {
  const Metadata by(metadata);
  return other_compiler(
      {by.text("compiler"), by.text("plugin"), by.text("llvm_file"), by.number("llvm_bytes"), by.number("llvm_time")},
      plugin_dir);
}

std::string cpu_entry_problem(const Entry& entry) {
  if (entry.kind == EntryKind::Shape) {
    const std::string_view text(reinterpret_cast<const char*>(entry.payload.data()), entry.payload.size());
    return nlohmann::json::accept(text) ? "" : "its payload is not JSON";
  }
  const auto kernel = load_kernel(entry);
  return kernel ? "" : "it cannot be loaded: " + kernel.error().message;
}

}  // namespace stepfuse::runtime
