// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_overrides.h"

#include "runtime/cuda/plan_kernels.h"
#include "runtime/cuda_backend.h"
#include "runtime/debug/override.h"
#include "runtime/debug/text_files.h"
#include "runtime/debug/trace.h"

#include <filesystem>
#include <map>
#include <mutex>
#include <set>

namespace stepfuse::runtime {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxOverrideBytes = size_t{16} << 20;

/// The names a file may have for this kernel, the more special one first.
std::vector<std::string> file_names(const CudaKernelRequest& request) {
  const std::string stem = kernel_file_stem(request);
  return {fmt::format("{}.{}.cu", stem, kernel_file_hash(request)), stem + ".cu"};
}

/// Kernels of override files by everything they depend on. Never destroyed, like those of a CPU.
struct Loaded {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const CudaKernel>> kernels;
};
Loaded& loaded() {
  static auto* all = new Loaded;
  return *all;
}

Result<std::shared_ptr<const CudaKernel>> compile_override(const Context& context, const CudaKernelRequest& request,
                                                           const std::string& path, const std::string& text) {
  if (context.settings().is("jit", "off"))
    return with_hint(fail(StatusCode::InvalidArgument, "kernel {} comes from {}, but jit is off", request.name, path),
                     "an edited kernel must be compiled: leave out jit=off or override_dir");
  STEPFUSE_ASSIGN(const Nvrtc* nvrtc, Nvrtc::open(context.settings()));
  const TraceScope scope(context.trace(), "compile", request.name);
  const auto binary = nvrtc->compile(text, request.name, request.options, request.arch);
  if (!binary && binary.error().code == StatusCode::Internal)
    return with_hint(fail(StatusCode::InvalidData, "{}: {}", path, binary.error().message),
                     "start from what STEPFUSE_DUMP=cuda writes for this kernel");
  if (!binary) return fail(binary.error());
  return std::make_shared<const CudaKernel>(request.name, binary->cubin, binary->ptx, nvrtc->version());
}

}  // namespace

std::string kernel_file_stem(const CudaKernelRequest& request) {
  const std::string stem = file_name_of(request.name);
  return request.variant.empty() ? stem : fmt::format("{}.{}", stem, request.variant);
}

std::string kernel_file_hash(const CudaKernelRequest& request) { return short_hash(request.identity); }

Result<std::shared_ptr<const CudaKernel>> cuda_override_kernel(const Context& context, const CudaKernelRequest& request,
                                                               bool& compiled) {
  const std::string& folder = context.settings().text("override_dir");
  if (folder.empty()) return nullptr;
  for (const std::string& name : file_names(request)) {
    const std::string path = fs::path(folder) / name;
    std::error_code error;
    if (!fs::exists(path, error)) continue;
    STEPFUSE_ASSIGN(const std::string text, read_whole_file(path, kMaxOverrideBytes));
    context.log().write_once(LogLevel::Warn, path + text, fmt::format("kernel {} comes from {}", request.name, path));
    const std::string key =
        fmt::format("{}\n{}\n{}\n{}", request.name, request.arch.name(), fmt::join(request.options, " "), text);
    {
      const std::lock_guard lock(loaded().mutex);
      if (const auto it = loaded().kernels.find(key); it != loaded().kernels.end()) return it->second;
    }
    STEPFUSE_ASSIGN(auto kernel, compile_override(context, request, path, text));
    compiled = true;
    const std::lock_guard lock(loaded().mutex);
    return loaded().kernels.emplace(key, std::move(kernel)).first->second;
  }
  return nullptr;
}

Outcome check_cuda_overrides(const Context& context, const compiler::StepPlan& plan) {
  const std::string& folder = context.settings().text("override_dir");
  STEPFUSE_ASSIGN(const std::set<std::string> files, override_files(folder, ".cu"));
  STEPFUSE_ASSIGN(const CudaArch arch, plan_arch(plan.target.name, context));
  std::map<std::string, std::set<std::string>> replaced;  // file -> hashes of the kernels that use it
  for (const CudaKernelRequest& request : cuda_plan_requests(plan, arch))
    for (const std::string& name : file_names(request)) {
      if (!files.contains(name)) continue;
      replaced[name].insert(kernel_file_hash(request));
      break;
    }
  return check_override_files(context, files, replaced);
}

Result<std::vector<NamedText>> cuda_kernel_files(const compiler::StepPlan& plan, const Context& context,
                                                 CudaText kind) {
  STEPFUSE_ASSIGN(const CudaArch arch, plan_arch(plan.target.name, context));
  const std::vector<CudaKernelRequest> requests = cuda_plan_requests(plan, arch);
  std::map<std::string, std::set<std::string>> hashes;  // by stem
  for (const CudaKernelRequest& request : requests) hashes[kernel_file_stem(request)].insert(kernel_file_hash(request));
  std::vector<NamedText> files;
  for (const CudaKernelRequest& request : requests) {
    std::string name = kernel_file_stem(request);
    if (hashes[name].size() > 1) name += "." + kernel_file_hash(request);
    STEPFUSE_ASSIGN(std::string text, request.source());
    if (kind == CudaText::Ptx) {
      STEPFUSE_ASSIGN(const Nvrtc* nvrtc, Nvrtc::open(context.settings()));
      STEPFUSE_ASSIGN(CudaBinary binary, nvrtc->compile(text, request.name, request.options, request.arch));
      text = std::move(binary.ptx);
    }
    files.push_back({name + (kind == CudaText::Ptx ? ".ptx" : ".cu"), std::move(text)});
  }
  return files;
}

}  // namespace stepfuse::runtime
