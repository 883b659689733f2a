// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_libraries.h"

#include "runtime/cuda/api/driver.h"
#include "runtime/cuda_backend.h"

#include <atomic>

#include <unistd.h>

namespace stepfuse::runtime {

namespace {

constexpr int kOldestMajor = 12, kNewestMajor = 13;

using VersionOfLt = size_t (*)();
using VersionOfDriver = cuda::CUresult (*)(int*);

/// 13.1.0 is 130100.
int lt_number(const OpenedLibrary& library) {
  const auto version = library.symbol<VersionOfLt>("cublasLtGetVersion");
  return version != nullptr ? static_cast<int>(version()) : 0;
}

/// 13.0 is 13000.
int driver_number(const OpenedLibrary& library) {
  int number = 0;
  const auto version = library.symbol<VersionOfDriver>("cuDriverGetVersion");
  return version != nullptr && version(&number) == cuda::CUDA_SUCCESS ? number : 0;
}

std::string lt_text(int number) { return fmt::format("{}.{}", number / 10000, number / 100 % 100); }
std::string driver_text(int number) { return fmt::format("{}.{}", number / 1000, number / 10 % 100); }

tl::unexpected<Status> no_device(std::string_view why) {
  return with_hint(
      fail(StatusCode::Environment, "target cuda is the present device, and there is none: {}", why),
      "name an architecture, such as sm_90, to compile for a device elsewhere; `nvidia-smi` shows what the "
      "driver sees");
}

}  // namespace

const LibrarySpec& cublaslt_library() {
  static const LibrarySpec spec{"cuBLASLt",
                                "cublaslt",
                                "libcublasLt.so.",
                                {kNewestMajor, kOldestMajor},
                                {"cu13/lib", "cublas/lib"},
                                "install CUDA's toolkit, or `pip install nvidia-cublas` into the active Python "
                                "environment"};
  return spec;
}

Result<OpenedLibrary> open_cublaslt(const LibraryPlaces& places) {
  return open_cuda_library(cublaslt_library(), places, [](const OpenedLibrary& library) -> Outcome {
    const int number = lt_number(library);
    if (number == 0) return fail(StatusCode::Environment, "it does not tell its version");
    if (number / 10000 >= kOldestMajor && number / 10000 <= kNewestMajor) return {};
    return fail(StatusCode::Environment, "it is cuBLASLt {}; this version of Stepfuse takes major {} or {}",
                lt_text(number), kNewestMajor, kOldestMajor);
  });
}

std::string cublaslt_version(const OpenedLibrary& library) { return lt_text(lt_number(library)); }

const LibrarySpec& driver_library() {
  static const LibrarySpec spec{"CUDA's driver", "libcuda", "libcuda.so.", {1}, {}, "install NVIDIA's driver"};
  return spec;
}

Result<OpenedLibrary> open_driver(const LibraryPlaces& places) {
  return open_cuda_library(driver_library(), places, [](const OpenedLibrary& library) -> Outcome {
    const int number = driver_number(library);
    if (number == 0) return fail(StatusCode::Environment, "it does not tell its version");
    if (number / 1000 >= kOldestMajor) return {};
    return with_hint(fail(StatusCode::Environment, "it serves CUDA {}; this version of Stepfuse needs {} or newer",
                          driver_text(number), kOldestMajor),
                     "update the driver");
  });
}

std::string driver_version(const OpenedLibrary& library) { return driver_text(driver_number(library)); }

Outcome check_process_of_cuda(pid_t initialiser) {
  if (initialiser == 0 || initialiser == ::getpid()) return {};
  return with_hint(
      fail(StatusCode::Environment, "this process was forked after CUDA had been initialised in its parent"),
      "CUDA works in the process that initialised it: fork first, or start the child anew (spawn)");
}

Result<CudaArch> present_device(const Settings& settings) {
  static std::atomic<pid_t> initialiser{0};
  STEPFUSE_TRY(check_process_of_cuda(initialiser));
  const auto driver = open_driver(LibraryPlaces::of(settings, driver_library()));
  if (!driver) return no_device(driver.error().message);
  const auto init = driver->symbol<cuda::CUresult (*)(unsigned)>("cuInit");
  const auto count_of = driver->symbol<cuda::CUresult (*)(int*)>("cuDeviceGetCount");
  const auto attribute =
      driver->symbol<cuda::CUresult (*)(int*, cuda::CUdevice_attribute, cuda::CUdevice)>("cuDeviceGetAttribute");
  if (init == nullptr || count_of == nullptr || attribute == nullptr)
    return no_device(fmt::format("{} is no driver", driver->path));
  if (const cuda::CUresult result = init(0); result != cuda::CUDA_SUCCESS)
    return no_device(fmt::format("the driver answers cuInit with error {}", static_cast<int>(result)));
  initialiser = ::getpid();
  const auto ordinal = static_cast<int>(settings.number("device"));
  int count = 0, major = 0, minor = 0;
  if (count_of(&count) != cuda::CUDA_SUCCESS || count == 0) return no_device("the driver lists no device");
  if (ordinal >= count) return no_device(fmt::format("device={}, and the driver lists {}", ordinal, count));
  if (attribute(&major, cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal) != cuda::CUDA_SUCCESS ||
      attribute(&minor, cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal) != cuda::CUDA_SUCCESS)
    return no_device("the driver does not tell the device's capability");
  return CudaArch{major * 10 + minor, 0, true};
}

Result<CudaArch> cuda_arch_of(const std::string& target, const Settings& settings) {
  STEPFUSE_TRY(check_cuda_target(target));
  return target == "cuda" ? present_device(settings) : Result<CudaArch>(*parse_cuda_arch(target));
}

}  // namespace stepfuse::runtime
