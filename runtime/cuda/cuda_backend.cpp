// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda_backend.h"

#include "runtime/cuda/cuda_libraries.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/cuda/plan_kernels.h"
#include "runtime/cuda/product_cache.h"

namespace stepfuse::runtime {

namespace {

/// From here on the matrix units take bf16.
constexpr int kFirstWithBf16Products = 80;
/// One product of a middle-sized matrix does not fill a large device.
constexpr int64_t kBranches = 4;
/// Tensor cores load 16 bytes at a time (cuBLAS guide, "Tensor Core Usage").
constexpr int64_t kRowBytes = 16;

/// What the search found, or said.
template <class Found>
CudaLibrary described(std::string name, const LibrarySpec& spec, const Settings& settings, const Result<Found>& found) {
  CudaLibrary library;
  library.name = std::move(name);
  library.found = found.has_value();
  library.demanded = !settings.text(spec.setting).empty();
  if (found) return library;
  library.why = found.error().message;
  library.hint = found.error().hint;
  return library;
}

CudaLibrary nvrtc_library(const Settings& settings) {
  const auto nvrtc = Nvrtc::open(settings);
  CudaLibrary library = described("NVRTC", Nvrtc::library(), settings, nvrtc);
  if (!nvrtc) return library;
  library.path = (*nvrtc)->path();
  library.rule = (*nvrtc)->rule();
  library.version = (*nvrtc)->version();
  return library;
}

CudaLibrary plain_library(std::string name, const LibrarySpec& spec, const Settings& settings,
                          Result<OpenedLibrary> (*open)(const LibraryPlaces&),
                          std::string (*version)(const OpenedLibrary&)) {
  const auto opened = open(LibraryPlaces::of(settings, spec));
  CudaLibrary library = described(std::move(name), spec, settings, opened);
  if (!opened) return library;
  library.path = opened->path;
  library.rule = opened->rule;
  library.version = version(*opened);
  return library;
}

}  // namespace

Outcome check_cuda_target(const std::string& target) {
  if (target == "cuda" || parse_cuda_arch(target)) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "there is no target '{}'", target),
                   "CUDA's targets are cuda (the present device), and sm_90 (machine code), sm_90a or compute_90 (PTX) "
                   "and the like");
}

Result<compiler::TargetTraits> cuda_target_traits(const std::string& target, const Settings& settings) {
  STEPFUSE_ASSIGN(const CudaArch arch, cuda_arch_of(target, settings));
  compiler::TargetTraits traits;
  traits.name = target;
  traits.bf16_products = arch.number >= kFirstWithBf16Products;
  // The second pass over a matrix is a launch of its own, or a barrier across the grid: folding the norm saves it.
  traits.divides_in_cache = false;
  traits.launches_phases = true;
  traits.launches_scalars = true;
  traits.captures_step = true;
  traits.branches = kBranches;
  traits.row_bytes = kRowBytes;
  return traits;
}

std::vector<CudaTargetInfo> cuda_targets(const Settings& settings) {
  const auto device = present_device(settings);
  std::vector<CudaTargetInfo> targets{
      {"cuda",
       device ? fmt::format("the present device, of capability {}", capability_text(device->number))
              : "the present device; there is none",
       device.has_value()}};
  const auto nvrtc = Nvrtc::open(settings);
  if (!nvrtc) {
    targets.push_back({"sm_*, compute_*", "no NVRTC was found to compile with: see `stepfuse doctor`"});
    return targets;
  }
  for (const int number : (*nvrtc)->supported_archs()) {
    const CudaArch arch{number, 0, true};
    targets.push_back({arch.name(),
                       fmt::format("capability {}, by NVRTC {}; PTX alone: {}", capability_text(number),
                                   (*nvrtc)->version(), arch.name_as_ptx()),
                       device && cubin_serves(arch, device->number)});
  }
  return targets;
}

std::vector<CudaLibrary> cuda_libraries(const Settings& settings) {
  return {nvrtc_library(settings),
          plain_library("cuBLASLt", cublaslt_library(), settings, open_cublaslt, cublaslt_version),
          plain_library("driver", driver_library(), settings, open_driver, driver_version)};
}

Result<KernelMakers> cuda_plan_kernels(const compiler::StepPlan& plan, const Context& context) {
  STEPFUSE_ASSIGN(const CudaArch arch, plan_arch(plan.target.name, context));
  std::vector<CudaKernelRequest> requests = cuda_plan_requests(plan, arch);
  KernelMakers makers;
  for (CudaKernelRequest& request : requests) makers.push_back(cuda_kernel_maker(context, std::move(request)));
  return makers;
}

Result<KeyFields> cuda_target_fields(const std::string& target, const Context& context) {
  STEPFUSE_ASSIGN(const CudaArch arch, plan_arch(target, context));
  return KeyFields{{"arch", arch.name()}};
}

std::optional<std::string> cuda_entry_made_otherwise(const std::string& metadata) {
  return cuda_compiled_otherwise(metadata);
}

std::string cuda_entry_problem(const Entry& entry) {
  if (entry.kind == EntryKind::Product) return product_entry_problem(entry);
  const auto kernel = load_cuda_kernel(entry);
  return kernel ? "" : "it cannot be loaded: " + kernel.error().message;
}

Result<std::string> cuda_self_test(const Settings& settings) {
  STEPFUSE_ASSIGN(const Nvrtc* nvrtc, Nvrtc::open(settings));
  const CudaArch arch{nvrtc->supported_archs().back(), 0, true};
  const std::string source = "extern \"C\" __global__ void probe(float* x) { x[threadIdx.x] *= 2; }\n";
  STEPFUSE_TRY(nvrtc->compile(source, "probe", {}, arch).map([](const CudaBinary&) {}));
  return arch.name();
}

}  // namespace stepfuse::runtime
