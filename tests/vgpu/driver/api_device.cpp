// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0

// The driver itself, devices and contexts.
#include "tests/vgpu/driver/call.h"

#include <cstring>

namespace stepfuse::vgpu::driver {

/// Plausible for a large data-centre GPU; limits are those of compute capability 9.0 in the CUDA programming guide's
/// table of technical specifications (the real 12.x has less shared memory and fewer threads per multiprocessor).
std::optional<int> device_attribute(CUdevice_attribute attribute) {
  static const std::map<unsigned, int> values = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10},
      {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 << 10},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 64 << 10},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},  // kHz
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0},
      {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
      {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
      {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
      {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0},
      {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
      {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},  // kHz
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
      {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, kCapability / 10},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, kCapability % 10},
      {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 64 << 10},
      {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0},
      {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
      {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
      {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1 << 10},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0},
  };
  const auto found = values.find(attribute);
  if (found == values.end()) return std::nullopt;
  return found->second;
}

namespace {

struct NewerForm {
  const char* name;
  int version;
};
/// Functions with a form newer than the one in driver_functions.def: a driver asked for this version or a later one
/// answers with a function of other parameters, which is not here.
constexpr NewerForm kNewerForms[] = {
    {"cuCtxCreate", 11040},
    {"cuCtxGetDevice", 13000},
    {"cuCtxSynchronize", 13000},
    {"cuStreamGetCaptureInfo", 12030},
    {"cuStreamGetCtx", 12050},
    {"cuEventElapsedTime", 12080},
    {"cuGraphAddDependencies", 12030},
};

struct Exported {
  const char* name;
  int version;
  void* function;
};

std::shared_ptr<Context> get_context(CUcontext handle) {
  Driver& d = driver();
  if (d.dead_contexts.contains(handle)) refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context was destroyed");
  auto context = d.contexts.find(handle);
  if (!context) refuse(CUDA_ERROR_INVALID_CONTEXT, "no such context");
  return context;
}

const char* sentence(CUresult result) {
  static std::map<unsigned, std::string> made;
  std::string& text = made[result];
  if (text.empty()) text = fmt::format("{} (virtual driver)", result_name(result));
  return text.c_str();
}

}  // namespace
}  // namespace stepfuse::vgpu::driver

using namespace stepfuse::vgpu::driver;

VGPU_EXPORT(cuInit)(unsigned flags) {
  return call_unchecked("cuInit", [&](Driver& d) {
    require(flags == 0, CUDA_ERROR_INVALID_VALUE, "flags must be 0");
    require(d.devices > 0, CUDA_ERROR_NO_DEVICE, "VGPU_DEVICES=0");
    d.initialized = true;
  });
}

VGPU_EXPORT(cuDriverGetVersion)(int* version) {
  return call_unchecked("cuDriverGetVersion", [&](Driver&) {
    require(version, CUDA_ERROR_INVALID_VALUE, "null");
    *version = kDriverVersion;
  });
}

VGPU_EXPORT(cuGetErrorName)(CUresult error, const char** text) {
  return call_unchecked("cuGetErrorName", [&](Driver&) {
    require(text, CUDA_ERROR_INVALID_VALUE, "null");
    *text = result_name(error);
    require(*text, CUDA_ERROR_INVALID_VALUE, "no such result");
  });
}

VGPU_EXPORT(cuGetErrorString)(CUresult error, const char** text) {
  return call_unchecked("cuGetErrorString", [&](Driver&) {
    require(text, CUDA_ERROR_INVALID_VALUE, "null");
    *text = result_name(error) ? sentence(error) : nullptr;
    require(*text, CUDA_ERROR_INVALID_VALUE, "no such result");
  });
}

/// NVRTC asks for tables of functions that no manual names, and lives without them.
VGPU_EXPORT(cuGetExportTable)(const void** table, const CUuuid* id) {
  return call_unchecked("cuGetExportTable", [&](Driver&) {
    require(table && id, CUDA_ERROR_INVALID_VALUE, "null");
    *table = nullptr;
    refuse(CUDA_ERROR_NOT_FOUND, "the virtual driver has no export tables");
  });
}

VGPU_EXPORT(cuGetProcAddress_v2)
(const char* name, void** function, int version, uint64_t flags, CUdriverProcAddressQueryResult* status) {
  static const Exported exported[] = {
#define STEPFUSE_CUDA_FUNCTION(function_name, function_version, symbol, parameters) \
  {#function_name, function_version, reinterpret_cast<void*>(&stepfuse::cuda::symbol)},
#include "runtime/cuda/api/driver_functions.def"
#undef STEPFUSE_CUDA_FUNCTION
  };
  return call_unchecked("cuGetProcAddress_v2", [&](Driver& d) {
    require(name && function, CUDA_ERROR_INVALID_VALUE, "null");
    d.note("name", name);
    d.note("version", version);
    *function = nullptr;
    auto answer = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) d.unknown("per-thread default streams");
    for (const NewerForm& newer : kNewerForms) {
      if (std::string_view(newer.name) == name && version >= newer.version) {
        d.unknown(fmt::format("{} of version {}: only the form before {} is known", name, version, newer.version));
        refuse(CUDA_ERROR_NOT_FOUND, "a newer form than the virtual driver's");
      }
    }
    for (const Exported& candidate : exported) {
      if (std::string_view(candidate.name) != name) continue;
      answer = version >= candidate.version ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
      if (answer == CU_GET_PROC_ADDRESS_SUCCESS) *function = candidate.function;
    }
    if (status) *status = answer;
    require(*function, CUDA_ERROR_NOT_FOUND, "no such function for that version");
  });
}

VGPU_EXPORT(cuDeviceGetCount)(int* count) {
  return call("cuDeviceGetCount", [&](Driver& d) {
    require(count, CUDA_ERROR_INVALID_VALUE, "null");
    *count = d.devices;
  });
}

VGPU_EXPORT(cuDeviceGet)(CUdevice* device, int ordinal) {
  return call("cuDeviceGet", [&](Driver&) {
    require(device, CUDA_ERROR_INVALID_VALUE, "null");
    check_device(ordinal);
    *device = ordinal;
  });
}

VGPU_EXPORT(cuDeviceGetName)(char* name, int bytes, CUdevice device) {
  return call("cuDeviceGetName", [&](Driver&) {
    require(name && bytes > 0, CUDA_ERROR_INVALID_VALUE, "no room for the name");
    check_device(device);
    std::snprintf(name, static_cast<size_t>(bytes), "Stepfuse virtual GPU");
  });
}

VGPU_EXPORT(cuDeviceGetUuid_v2)(CUuuid* uuid, CUdevice device) {
  return call("cuDeviceGetUuid_v2", [&](Driver&) {
    require(uuid, CUDA_ERROR_INVALID_VALUE, "null");
    check_device(device);
    std::memcpy(uuid->bytes, "stepfuse-vgpu-0", sizeof uuid->bytes);
    uuid->bytes[15] = static_cast<char>(device);
  });
}

VGPU_EXPORT(cuDeviceGetAttribute)(int* value, CUdevice_attribute attribute, CUdevice device) {
  return call("cuDeviceGetAttribute", [&](Driver& d) {
    require(value, CUDA_ERROR_INVALID_VALUE, "null");
    d.note("attribute", static_cast<unsigned>(attribute));
    check_device(device);
    const auto known = device_attribute(attribute);
    if (!known) d.unknown(fmt::format("device attribute {} is not in the table", static_cast<unsigned>(attribute)));
    require(known.has_value(), CUDA_ERROR_INVALID_VALUE, "unknown attribute");
    *value = *known;
  });
}

VGPU_EXPORT(cuDeviceTotalMem_v2)(size_t* bytes, CUdevice device) {
  return call("cuDeviceTotalMem_v2", [&](Driver& d) {
    require(bytes, CUDA_ERROR_INVALID_VALUE, "null");
    check_device(device);
    *bytes = d.memory->limit();
  });
}

VGPU_EXPORT(cuDevicePrimaryCtxRetain)(CUcontext* context, CUdevice device) {
  return call("cuDevicePrimaryCtxRetain", [&](Driver& d) {
    require(context, CUDA_ERROR_INVALID_VALUE, "null");
    check_device(device);
    auto& primary = d.primaries[static_cast<size_t>(device)];
    if (primary.retained++ == 0) primary.context = d.make_context(device, true);
    *context = primary.context->handle;
  });
}

VGPU_EXPORT(cuDevicePrimaryCtxRelease_v2)(CUdevice device) {
  return call("cuDevicePrimaryCtxRelease_v2", [&](Driver& d) {
    check_device(device);
    auto& primary = d.primaries[static_cast<size_t>(device)];
    require(primary.retained > 0, CUDA_ERROR_INVALID_CONTEXT, "the primary context is not retained");
    if (--primary.retained > 0) return;
    d.destroy_context(*primary.context);
    primary.context.reset();
  });
}

VGPU_EXPORT(cuDevicePrimaryCtxGetState)(CUdevice device, unsigned* flags, int* active) {
  return call("cuDevicePrimaryCtxGetState", [&](Driver& d) {
    require(flags && active, CUDA_ERROR_INVALID_VALUE, "null");
    check_device(device);
    *flags = CU_CTX_SCHED_AUTO;
    *active = d.primaries[static_cast<size_t>(device)].retained > 0;
  });
}

VGPU_EXPORT(cuCtxCreate_v2)(CUcontext* context, unsigned flags, CUdevice device) {
  return call("cuCtxCreate_v2", [&](Driver& d) {
    require(context, CUDA_ERROR_INVALID_VALUE, "null");
    check_device(device);
    require(flags <= CU_CTX_SCHED_BLOCKING_SYNC, CUDA_ERROR_INVALID_VALUE, "unknown flags");
    auto made = d.make_context(device, false);
    context_stack().push_back(made);
    *context = made->handle;
  });
}

VGPU_EXPORT(cuCtxDestroy_v2)(CUcontext handle) {
  return call("cuCtxDestroy_v2", [&](Driver& d) {
    auto context = get_context(handle);
    require(!context->primary, CUDA_ERROR_INVALID_CONTEXT, "a primary context is released, not destroyed");
    d.destroy_context(*context);
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == context) stack.pop_back();
  });
}

VGPU_EXPORT(cuCtxGetCurrent)(CUcontext* context) {
  return call("cuCtxGetCurrent", [&](Driver&) {
    require(context, CUDA_ERROR_INVALID_VALUE, "null");
    auto& stack = context_stack();
    *context = stack.empty() || !stack.back() ? nullptr : stack.back()->handle;
  });
}

VGPU_EXPORT(cuCtxSetCurrent)(CUcontext handle) {
  return call("cuCtxSetCurrent", [&](Driver&) {
    auto& stack = context_stack();
    auto context = handle ? get_context(handle) : nullptr;
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(context);
  });
}

VGPU_EXPORT(cuCtxPushCurrent_v2)(CUcontext handle) {
  return call("cuCtxPushCurrent_v2", [&](Driver&) { context_stack().push_back(get_context(handle)); });
}

VGPU_EXPORT(cuCtxPopCurrent_v2)(CUcontext* context) {
  return call("cuCtxPopCurrent_v2", [&](Driver&) {
    auto& stack = context_stack();
    require(!stack.empty(), CUDA_ERROR_INVALID_CONTEXT, "no context to pop");
    if (context) *context = stack.back()->handle;
    stack.pop_back();
  });
}

VGPU_EXPORT(cuCtxGetDevice)(CUdevice* device) {
  return context_call("cuCtxGetDevice", [&](Driver&, Context& context) {
    require(device, CUDA_ERROR_INVALID_VALUE, "null");
    *device = context.device;
  });
}

VGPU_EXPORT(cuCtxGetId)(CUcontext handle, unsigned long long* id) {
  return call("cuCtxGetId", [&](Driver&) {
    require(id, CUDA_ERROR_INVALID_VALUE, "null");
    *id = (handle ? get_context(handle) : current_context())->id;
  });
}

VGPU_EXPORT(cuCtxSynchronize)() {
  return context_call("cuCtxSynchronize", [&](Driver& d, Context& context) {
    refuse_in_capture("cuCtxSynchronize");
    ++d.counters.synchronizations;
    wait_for_context(context);
  });
}
