// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug/override.h"

#include "codegen/lower.h"
#include "runtime/cuda_backend.h"
#include "runtime/debug/text_files.h"
#include "runtime/debug/trace.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>

namespace stepfuse::runtime {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxOverrideBytes = size_t{16} << 20;

const std::string& folder_of(const Context& context) { return context.settings().text("override_dir"); }

/// The names a file may have for this kernel, the more special one first.
std::vector<std::string> file_names(const codegen::KernelSpec& spec) {
  const std::string stem = file_name_of(spec.name);
  return {fmt::format("{}.{}.ll", stem, kernel_hash(spec)), stem + ".ll"};
}

/// Of a text with several kernels, each behind a line "; kernel NAME", the part of this one. The lines stay where they
/// are, so that messages name the right one.
std::string part_for(std::string text, const std::string& name) {
  constexpr std::string_view kMark = "; kernel ";
  const std::string own = std::string(kMark) + name;
  std::string out;
  bool mine = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    // A mark has a bare name; the kernel's own text below it quotes its name.
    if (line.starts_with(kMark) && line.substr(kMark.size(), 1) != "\"") mine = line == own;
    if (mine) out += line;
    out += '\n';
    at = end + 1;
  }
  const bool marked = text.starts_with(own + "\n") || text.find("\n" + own + "\n") != std::string::npos;
  return marked ? out : text;
}

/// Kernels of override files by everything they depend on. Never destroyed: threads may run them while the process
/// exits.
struct Loaded {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const LoadedKernel>> kernels;
};
Loaded& loaded() {
  static auto* all = new Loaded;
  return *all;
}

Result<std::shared_ptr<const LoadedKernel>> compile_override(const Context& context, const codegen::KernelSpec& spec,
                                                             const CpuTarget& target, LlvmIrOverride replacement) {
  if (context.settings().is("jit", "off"))
    return with_hint(
        fail(StatusCode::InvalidArgument, "kernel {} comes from {}, but jit is off", spec.name, replacement.file),
        "an edited kernel must be compiled: leave out jit=off or override_dir");
  STEPFUSE_ASSIGN(const CpuCompiler* compiler, cpu_compiler(context.settings().text("plugin_dir")));
  const TraceScope scope(context.trace(), "compile", spec.name);
  const std::string file = replacement.file;
  STEPFUSE_ASSIGN(const CompiledKernel kernel,
                  compiler->compile({&spec, target, false, false, std::move(replacement)}));
  auto object = load_object(kernel.object, spec.name);
  if (!object)
    return with_hint(fail(StatusCode::InvalidData, "{}: its code cannot be loaded: {}", file, object.error().message),
                     "a kernel calls no function, needs no memory of its own, and is complete in itself");
  return std::shared_ptr<const LoadedKernel>(std::move(*object));
}

tl::unexpected<Status> ambiguous(const std::string& file, const std::set<std::string>& hashes) {
  return with_hint(
      fail(StatusCode::InvalidArgument, "override_dir: {} would replace {} different kernels", file, hashes.size()),
      fmt::format("name one of them: put its hash before {}; the hashes are {}", fs::path(file).extension().string(),
                  fmt::join(hashes, ", ")));
}

}  // namespace

Result<std::set<std::string>> override_files(const std::string& folder, std::string_view extension) {
  std::set<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == extension) files.insert(it->path().filename().string());
  if (error)
    return with_hint(fail(StatusCode::InvalidArgument, "override_dir={}: {}", folder, error.message()),
                     fmt::format("override_dir is a folder with files <kernel>{}", extension));
  return files;
}

Outcome check_override_files(const Context& context, const std::set<std::string>& files,
                             const std::map<std::string, std::set<std::string>>& replaced) {
  const std::string& folder = folder_of(context);
  for (const auto& [file, hashes] : replaced)
    if (hashes.size() > 1) return ambiguous(file, hashes);
  for (const std::string& file : files)
    if (!replaced.contains(file))
      context.log().write_once(LogLevel::Warn, "override " + folder + file,
                               fmt::format("override_dir: {} in {} replaces no kernel of this plan", file, folder));
  return {};
}

std::string kernel_hash(const codegen::KernelSpec& spec) { return short_hash(codegen::identity(spec)); }

Result<LlvmIrOverride> find_override(const Context& context, const codegen::KernelSpec& spec) {
  if (folder_of(context).empty()) return LlvmIrOverride{};
  for (const std::string& name : file_names(spec)) {
    const std::string path = fs::path(folder_of(context)) / name;
    std::error_code error;
    if (!fs::exists(path, error)) {
      if (!error || error == std::errc::no_such_file_or_directory) continue;
      return with_hint(fail(StatusCode::Io, "override_dir: cannot look at {}: {}", path, error.message()),
                       "make the folder and its files readable, or unset STEPFUSE_OVERRIDE_DIR");
    }
    STEPFUSE_ASSIGN(std::string text, read_whole_file(path, kMaxOverrideBytes));
    if (text.find_first_not_of(" \t\r\n") == std::string::npos)
      return with_hint(fail(StatusCode::InvalidData, "{}: the file is empty", path),
                       "start from what STEPFUSE_DUMP=llvm writes for this kernel");
    return LlvmIrOverride{path, part_for(std::move(text), spec.name)};
  }
  return LlvmIrOverride{};
}

Result<std::shared_ptr<const LoadedKernel>> override_kernel(const Context& context, const codegen::KernelSpec& spec,
                                                            const CpuTarget& target, bool* compiled) {
  STEPFUSE_ASSIGN(LlvmIrOverride replacement, find_override(context, spec));
  if (replacement.text.empty()) return nullptr;
  context.log().write_once(LogLevel::Warn, spec.name + replacement.text,
                           fmt::format("kernel {} comes from {}", spec.name, replacement.file));
  const std::string key = fmt::format("{}\n{}\n{}\n{}\n{}", spec.name, codegen::identity(spec), target.triple,
                                      target.llvm_features, replacement.text);
  {
    const std::lock_guard lock(loaded().mutex);
    if (const auto it = loaded().kernels.find(key); it != loaded().kernels.end()) return it->second;
  }
  STEPFUSE_ASSIGN(auto kernel, compile_override(context, spec, target, std::move(replacement)));
  if (compiled != nullptr) *compiled = true;
  const std::lock_guard lock(loaded().mutex);
  return loaded().kernels.emplace(key, std::move(kernel)).first->second;
}

Outcome check_overrides(const Context& context, const compiler::StepPlan& plan) {
  const std::string& folder = folder_of(context);
  if (folder.empty()) return {};
  // The interpreter has no kernels; it is what an edited one is checked against.
  if (plan.target.name == "interp") return {};
  if (is_cuda_target(plan.target.name)) return check_cuda_overrides(context, plan);
  STEPFUSE_ASSIGN(const std::set<std::string> files, override_files(folder, ".ll"));
  std::map<std::string, std::set<std::string>> replaced;  // file -> hashes of the kernels that use it
  for (const codegen::KernelSpec& spec : codegen::distinct_kernels(plan))
    for (const std::string& name : file_names(spec)) {
      if (!files.contains(name)) continue;
      replaced[name].insert(kernel_hash(spec));
      break;
    }
  return check_override_files(context, files, replaced);
}

}  // namespace stepfuse::runtime
