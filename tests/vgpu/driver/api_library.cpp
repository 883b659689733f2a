// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0

// Libraries and kernels. Only PTX runs here.
#include "tests/vgpu/driver/call.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace stepfuse::vgpu::driver {

Module& module_on(Library& library, int device) {
  auto& module = library.modules[device];
  if (!module) {
    module = Module::load(library.ptx, *driver().device_memory[static_cast<size_t>(device)], library.options);
  }
  return *module;
}

namespace {

constexpr int kMostRegisters = 255;  // of a thread

/// Where the caller wants a compile's messages.
struct JitLog {
  char* buffer = nullptr;
  size_t bytes = 0;
  void** bytes_slot = nullptr;  // the size option's value becomes the number of bytes written

  void write(std::string_view text) const {
    size_t written = 0;
    if (buffer && bytes > 0) {
      written = std::min(text.size(), bytes - 1);
      std::memcpy(buffer, text.data(), written);
      buffer[written++] = '\0';
    }
    if (bytes_slot) *bytes_slot = reinterpret_cast<void*>(written);
  }
};

struct JitLogs {
  JitLog info, error;
};

JitLogs read_options(Driver& d, const CUjit_option* options, void** values, unsigned count) {
  JitLogs logs;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_INFO_LOG_BUFFER) {
      logs.info.buffer = static_cast<char*>(values[i]);
    } else if (options[i] == CU_JIT_ERROR_LOG_BUFFER) {
      logs.error.buffer = static_cast<char*>(values[i]);
    } else if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) {
      logs.info.bytes = reinterpret_cast<size_t>(values[i]) & 0xFFFFFFFF;
      logs.info.bytes_slot = &values[i];
    } else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      logs.error.bytes = reinterpret_cast<size_t>(values[i]) & 0xFFFFFFFF;
      logs.error.bytes_slot = &values[i];
    } else if (options[i] != CU_JIT_LOG_VERBOSE && options[i] != CU_JIT_OPTIMIZATION_LEVEL &&
               options[i] != CU_JIT_GENERATE_LINE_INFO) {
      d.unknown(fmt::format("JIT option {}", static_cast<unsigned>(options[i])));
      refuse(CUDA_ERROR_INVALID_VALUE, "unknown JIT option");
    }
  }
  return logs;
}

/// The words after a directive: "9.0" of ".version 9.0", "sm_90a" of ".target sm_90a, debug".
std::string_view word_after(std::string_view text, std::string_view directive) {
  const size_t at = text.find(directive);
  if (at == std::string_view::npos) return {};
  const size_t begin = text.find_first_not_of(" \t", at + directive.size());
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_first_of(" \t\r\n,;", begin) - begin);
}

int number_of(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// 90 for "9.0".
int ptx_version(std::string_view text) {
  const size_t dot = text.find('.');
  return dot == std::string_view::npos ? 0 : number_of(text) * 10 + number_of(text.substr(dot + 1));
}

/// Whether PTX for the target runs on the device. PTX ISA, ".target": sm_XY runs on XY and above; with the suffix a on
/// exactly XY, with f on the same family (the same major) from XY on.
bool target_runs(std::string_view target) {
  if (!target.starts_with("sm_")) return false;
  const int capability = number_of(target.substr(3));
  if (target.ends_with('a')) return capability == kCapability;
  if (target.ends_with('f')) return capability / 10 == kCapability / 10 && capability <= kCapability;
  return capability > 0 && capability <= kCapability;
}

void check_image(const void* code) {
  unsigned char magic[4];
  std::memcpy(magic, code, 1);
  if (magic[0] == 0x7F) refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "a cubin: this device runs PTX only");
  if (magic[0] == 0x50) {
    std::memcpy(magic, code, sizeof magic);
    const unsigned char fatbin[4] = {0x50, 0xED, 0x55, 0xBA};
    if (std::memcmp(magic, fatbin, sizeof magic) == 0) refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "a fatbin: pass its PTX");
  }
}

void check_headers(std::string_view ptx, const JitLogs& logs) {
  const std::string_view version = word_after(ptx, ".version"), target = word_after(ptx, ".target");
  if (version.empty() || target.empty()) {
    logs.error.write("PTX without .version or .target");
    refuse(CUDA_ERROR_INVALID_PTX, "no .version or no .target");
  }
  if (ptx_version(version) > kPtxVersion) {
    logs.error.write(
        fmt::format("PTX .version {} is newer than this driver's {}.{}", version, kPtxVersion / 10, kPtxVersion % 10));
    refuse(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, fmt::format(".version {}", version));
  }
  if (!target_runs(target)) {
    logs.error.write(fmt::format("PTX .target {} does not run on sm_{}", target, kCapability));
    refuse(CUDA_ERROR_INVALID_PTX, fmt::format(".target {}", target));
  }
}

/// Registers that ptxas would give a thread: as many as it needs, at most what .maxntid leaves.
void set_limits(Kernel& kernel) {
  const KernelInfo& info = kernel.info;
  const int file = *device_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  int threads = 1024;
  if (const auto bound = info.required_threads ? info.required_threads : info.max_threads) {
    threads = std::min(threads, static_cast<int>(uint64_t{bound->x} * bound->y * bound->z));
    kernel.registers = std::min({static_cast<int>(info.registers), kMostRegisters, file / std::max(threads, 1)});
  } else {
    kernel.registers = std::min(static_cast<int>(info.registers), kMostRegisters);
    const int per_thread = (std::max(kernel.registers, 1) + 7) / 8 * 8;
    threads = std::min(threads, file / per_thread / 32 * 32);
  }
  kernel.max_threads = threads;
}

std::shared_ptr<Library> load(Driver& d, std::string_view ptx, const JitLogs& logs, int device) {
  auto library = std::make_shared<Library>();
  library->ptx = ptx;
  library->ptx_version = ptx_version(word_after(ptx, ".version"));
  library->waits_for_grids = ptx.find("griddepcontrol.wait") != std::string_view::npos;
  library->options = d.machine_options;
  try {
    const Module& module = module_on(*library, device);
    for (const std::string& name : module.kernels()) {
      auto kernel = std::make_shared<Kernel>();
      kernel->library = library;
      kernel->info = *module.find(name);
      set_limits(*kernel);
      library->kernels.emplace(name, std::move(kernel));
    }
  } catch (const PtxError& error) {
    logs.error.write(error.what());
    fmt::print(stderr, "virtual driver: {}\n", error.what());
    refuse(CUDA_ERROR_INVALID_PTX, error.what());
  }
  logs.error.write("");
  logs.info.write(fmt::format("{} kernels", library->kernels.size()));
  return library;
}

std::shared_ptr<Kernel> get_kernel(CUkernel handle) { return driver().kernels.get(handle, "no such kernel"); }

void kernel_attribute(Driver& d, int* value, CUfunction_attribute attribute, const Kernel& kernel, int device) {
  require(value, CUDA_ERROR_INVALID_VALUE, "null");
  const auto library = kernel.library.lock();
  const auto opted = kernel.max_dynamic_shared.find(device);
  const int usual = *device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  const auto static_shared = static_cast<int>(kernel.info.static_shared_bytes);
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) {
    *value = kernel.max_threads;
  } else if (attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) {
    *value = static_shared;
  } else if (attribute == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) {
    *value = static_cast<int>(kernel.info.local_bytes);
  } else if (attribute == CU_FUNC_ATTRIBUTE_NUM_REGS) {
    *value = kernel.registers;
  } else if (attribute == CU_FUNC_ATTRIBUTE_PTX_VERSION) {
    *value = library ? library->ptx_version : 0;
  } else if (attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION) {
    *value = kCapability;
  } else if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    *value = opted != kernel.max_dynamic_shared.end() ? opted->second : usual - static_shared;
  } else {
    d.unknown(fmt::format("function attribute {}", static_cast<unsigned>(attribute)));
    refuse(CUDA_ERROR_INVALID_VALUE, "unknown attribute");
  }
}

void set_kernel_attribute(Driver& d, CUfunction_attribute attribute, int value, Kernel& kernel, int device) {
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    require(value >= -1 && value <= 100, CUDA_ERROR_INVALID_VALUE, "a carveout is a percentage");
    return;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    d.unknown(fmt::format("setting function attribute {}", static_cast<unsigned>(attribute)));
    refuse(CUDA_ERROR_INVALID_VALUE, "unknown attribute");
  }
  const int most = *device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  require(value >= 0 && value + static_cast<int>(kernel.info.static_shared_bytes) <= most, CUDA_ERROR_INVALID_VALUE,
          "more shared memory than a block can have");
  kernel.max_dynamic_shared[device] = value;
}

}  // namespace
}  // namespace stepfuse::vgpu::driver

using namespace stepfuse::vgpu::driver;

VGPU_EXPORT(cuLibraryLoadData)
(CUlibrary* handle, const void* code, CUjit_option* jit_options, void** jit_values, unsigned jit_count,
 CUlibraryOption* library_options, void** library_values, unsigned library_count) {
  return call("cuLibraryLoadData", [&](Driver& d) {
    require(handle && code, CUDA_ERROR_INVALID_VALUE, "null");
    require(jit_count == 0 || (jit_options && jit_values), CUDA_ERROR_INVALID_VALUE, "no options");
    require(library_count == 0 || (library_options && library_values), CUDA_ERROR_INVALID_VALUE, "no options");
    refuse_in_capture("cuLibraryLoadData");
    for (unsigned i = 0; i < library_count; ++i) {
      if (library_options[i] == CU_LIBRARY_BINARY_IS_PRESERVED) continue;
      d.unknown(fmt::format("library option {}", static_cast<unsigned>(library_options[i])));
      refuse(CUDA_ERROR_INVALID_VALUE, "unknown library option");
    }
    const JitLogs logs = read_options(d, jit_options, jit_values, jit_count);
    check_image(code);
    const std::string_view ptx(static_cast<const char*>(code));
    check_headers(ptx, logs);
    const auto& stack = context_stack();
    const int device = stack.empty() || !stack.back() ? 0 : stack.back()->device;
    auto library = load(d, ptx, logs, device);
    *handle = d.libraries.add(library);
    for (auto& [name, kernel] : library->kernels) d.kernels.add(kernel);
    ++d.counters.libraries_loaded;
    d.note("kernels", library->kernels.size());
  });
}

/// Launches of its kernels that are queued, or part of graphs, fault when they run.
VGPU_EXPORT(cuLibraryUnload)(CUlibrary handle) {
  return call("cuLibraryUnload", [&](Driver& d) {
    auto library = d.libraries.get(handle, "no such library");
    refuse_in_capture("cuLibraryUnload");
    library->unloaded = true;
    for (auto& [name, kernel] : library->kernels) {
      d.functions.remove_if([&](const Function& function) { return function.kernel == kernel; });
      d.kernels.remove(kernel->handle);
    }
    d.libraries.remove(handle);
  });
}

VGPU_EXPORT(cuLibraryGetKernel)(CUkernel* kernel, CUlibrary handle, const char* name) {
  return call("cuLibraryGetKernel", [&](Driver& d) {
    require(kernel && name, CUDA_ERROR_INVALID_VALUE, "null");
    auto library = d.libraries.get(handle, "no such library");
    d.note("name", name);
    const auto found = library->kernels.find(name);
    require(found != library->kernels.end(), CUDA_ERROR_NOT_FOUND, "the library has no such kernel");
    *kernel = found->second->handle;
  });
}

VGPU_EXPORT(cuLibraryGetGlobal)(CUdeviceptr* address, size_t* bytes, CUlibrary handle, const char* name) {
  return context_call("cuLibraryGetGlobal", [&](Driver& d, Context& context) {
    require(name, CUDA_ERROR_INVALID_VALUE, "null");
    auto library = d.libraries.get(handle, "no such library");
    const auto variable = module_on(*library, context.device).variable(name);
    require(variable.has_value(), CUDA_ERROR_NOT_FOUND, "the library has no such variable");
    if (address) *address = variable->first;
    if (bytes) *bytes = variable->second;
  });
}

VGPU_EXPORT(cuKernelGetFunction)(CUfunction* function, CUkernel handle) {
  return context_call("cuKernelGetFunction", [&](Driver& d, Context& context) {
    require(function, CUDA_ERROR_INVALID_VALUE, "null");
    auto kernel = get_kernel(handle);
    *function = nullptr;
    d.functions.each([&](const Function& known) {
      if (known.kernel == kernel && known.context.get() == &context) *function = known.handle;
    });
    if (*function) return;
    module_on(*kernel->library.lock(), context.device);
    auto made = std::make_shared<Function>();
    made->kernel = kernel;
    made->context = d.contexts.get(context.handle, "no such context");
    *function = d.functions.add(made);
  });
}

VGPU_EXPORT(cuKernelGetAttribute)(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  return call("cuKernelGetAttribute", [&](Driver& d) {
    check_device(device);
    kernel_attribute(d, value, attribute, *get_kernel(kernel), device);
  });
}

VGPU_EXPORT(cuKernelSetAttribute)(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  return call("cuKernelSetAttribute", [&](Driver& d) {
    check_device(device);
    set_kernel_attribute(d, attribute, value, *get_kernel(kernel), device);
  });
}

VGPU_EXPORT(cuFuncGetAttribute)(int* value, CUfunction_attribute attribute, CUfunction function) {
  return context_call("cuFuncGetAttribute", [&](Driver& d, Context& context) {
    kernel_attribute(d, value, attribute, *find_kernel(function, context), context.device);
  });
}
