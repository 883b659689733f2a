// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/driver.h"

#include <mutex>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>

namespace stepfuse::vgpu::lt {
namespace {

struct Driver {
  cuda::CUresult (*get_current)(cuda::CUcontext* context);
  decltype(&vgpu_enqueue_host) enqueue_host;
  decltype(&vgpu_resolve) resolve;
  decltype(&vgpu_fault) fault;
  decltype(&vgpu_note_call) note_call;
};

template <class Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// The library is never closed: what a stream still holds calls back into it.
std::optional<Driver> open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return std::nullopt;
  Driver driver{};
  const bool complete =
      look_up(library, "cuCtxGetCurrent", driver.get_current) &&
      look_up(library, "vgpu_enqueue_host", driver.enqueue_host) && look_up(library, "vgpu_resolve", driver.resolve) &&
      look_up(library, "vgpu_fault", driver.fault) && look_up(library, "vgpu_note_call", driver.note_call);
  return complete ? std::optional(driver) : std::nullopt;
}

/// Looked for until it is found: a process may open the driver later.
const Driver* driver() {
  static std::optional<Driver> found;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!found) found = open_driver();
  return found ? &*found : nullptr;
}

}  // namespace

cuda::CUcontext current_context(std::string& trouble) {
  const Driver* found = driver();
  if (found == nullptr) {
    trouble = "the process has not opened the virtual driver, libcuda.so.1 of the same folder";
    return nullptr;
  }
  cuda::CUcontext context = nullptr;
  if (const cuda::CUresult result = found->get_current(&context); result != cuda::CUDA_SUCCESS) {
    trouble = fmt::format("cuCtxGetCurrent says {}: call cuInit first", static_cast<int>(result));
    return nullptr;
  }
  if (context == nullptr) trouble = "the calling thread has no current context; the library would make one of its own";
  return context;
}

cuda::CUresult enqueue(cuda::CUstream stream, const char* name, void (*run)(void*), void* data, void (*release)(void*),
                       std::span<const VgpuRange> reads, std::span<const VgpuRange> writes) {
  return driver()->enqueue_host(stream, name, run, data, release, reads.data(), reads.size(), writes.data(),
                                writes.size());
}

void* resolve(uint64_t address, size_t bytes, bool write) { return driver()->resolve(address, bytes, write ? 1 : 0); }

void fault(cuda::CUresult error, const std::string& message) { driver()->fault(error, message.c_str()); }

void note_call(const char* name, cuda::cublasStatus_t status, const std::string& details) {
  if (const Driver* found = driver(); found != nullptr) found->note_call(name, status, details.c_str());
}

}  // namespace stepfuse::vgpu::lt
