// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0

// Limits of a launch, and the work of one. Limits by capability: the table of technical specifications in the CUDA
// programming guide, here what device_attribute answers.
#include "tests/vgpu/driver/call.h"

#include <algorithm>
#include <cstring>

namespace stepfuse::vgpu::driver {
namespace {

constexpr int kWarp = 32;
constexpr int kRegisterUnit = 256;  // a warp's registers are handed out in such pieces
constexpr int kSharedUnit = 128;

int attribute(CUdevice_attribute which) { return *device_attribute(which); }

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

uint64_t volume(const Dim3& dim) { return uint64_t{dim.x} * dim.y * dim.z; }

void check_grid(const LaunchRequest& request) {
  const Dim3 &grid = request.grid, &block = request.block;
  require(volume(grid) > 0 && volume(block) > 0, CUDA_ERROR_INVALID_VALUE, "an empty grid or block");
  require(grid.x <= static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)) &&
              grid.y <= static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)) &&
              grid.z <= static_cast<unsigned>(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)),
          CUDA_ERROR_INVALID_VALUE, "the grid is too large");
  require(block.x <= 1024 && block.y <= 1024 && block.z <= 64 && volume(block) <= 1024, CUDA_ERROR_INVALID_VALUE,
          "the block is too large");
  const KernelInfo& info = request.kernel->info;
  if (info.max_threads) {
    require(volume(block) <= volume(*info.max_threads), CUDA_ERROR_INVALID_VALUE, "more threads than .maxntid");
  }
  if (info.required_threads) {
    const Dim3& required = *info.required_threads;
    require(block.x == required.x && block.y == required.y && block.z == required.z, CUDA_ERROR_INVALID_VALUE,
            "not the block that .reqntid requires");
  }
  require(volume(block) <= static_cast<uint64_t>(request.kernel->max_threads), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
          "more registers than a multiprocessor has");
}

void check_shared(const LaunchRequest& request, const Context& context) {
  const Kernel& kernel = *request.kernel;
  const auto set = kernel.max_dynamic_shared.find(context.device);
  const size_t opted = set == kernel.max_dynamic_shared.end() ? 0 : static_cast<size_t>(set->second);
  const auto usual = static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  const size_t all = kernel.info.static_shared_bytes + request.dynamic_shared;
  require(all <= std::max(usual, kernel.info.static_shared_bytes + opted), CUDA_ERROR_INVALID_VALUE,
          "more shared memory than the kernel may have");
}

void check_cooperative(const LaunchRequest& request) {
  if (!request.cooperative) return;
  const int per_multiprocessor =
      blocks_per_multiprocessor(*request.kernel, static_cast<int>(volume(request.block)), request.dynamic_shared);
  const auto resident = static_cast<uint64_t>(per_multiprocessor) *
                        static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  require(volume(request.grid) <= resident, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
          "the blocks are not all resident at once");
}

std::vector<std::byte> parameters_from_extra(void** extra, size_t bytes) {
  const void* buffer = nullptr;
  size_t given = 0;
  for (; *extra != launch_param_end(); extra += 2) {
    if (*extra == launch_param_buffer_pointer()) {
      buffer = extra[1];
    } else if (*extra == launch_param_buffer_size()) {
      std::memcpy(&given, extra[1], sizeof given);
    } else {
      refuse(CUDA_ERROR_INVALID_VALUE, "unknown key in `extra`");
    }
  }
  require(buffer && given == bytes, CUDA_ERROR_INVALID_VALUE, "the parameter block has not the kernel's size");
  const auto* begin = static_cast<const std::byte*>(buffer);
  return {begin, begin + bytes};
}

std::vector<std::byte> copy_parameters(const LaunchRequest& request) {
  const KernelInfo& info = request.kernel->info;
  require(!(request.parameters && request.extra), CUDA_ERROR_INVALID_VALUE, "both parameters and `extra`");
  if (request.extra) return parameters_from_extra(request.extra, info.parameter_bytes);
  std::vector<std::byte> block(info.parameter_bytes);
  require(request.parameters || info.parameters.empty(), CUDA_ERROR_INVALID_VALUE, "no parameters");
  for (size_t i = 0; i < info.parameters.size(); ++i) {
    require(request.parameters[i], CUDA_ERROR_INVALID_VALUE, "a parameter is null");
    std::memcpy(block.data() + info.parameters[i].offset, request.parameters[i], info.parameters[i].bytes);
  }
  return block;
}

LaunchRequest request_of(const CUlaunchConfig& config, std::shared_ptr<Kernel> kernel) {
  LaunchRequest request;
  request.kernel = std::move(kernel);
  request.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  request.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
  request.dynamic_shared = config.sharedMemBytes;
  return request;
}

void apply_attributes(Driver& d, const CUlaunchConfig& config, LaunchRequest& request) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& one = config.attrs[i];
    if (one.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
      request.cooperative = one.value.cooperative != 0;
    } else if (one.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      // The grid may begin before the one before it ends: without the wait its reads are a race.
      const auto library = request.kernel->library.lock();
      if (one.value.programmaticStreamSerializationAllowed && library && !library->waits_for_grids) {
        d.unknown(fmt::format("{}: programmatic serialization of a kernel without griddepcontrol.wait",
                              request.kernel->info.name));
        refuse(CUDA_ERROR_INVALID_VALUE, "the kernel does not wait for the grid before it");
      }
    } else if (one.id != CU_LAUNCH_ATTRIBUTE_IGNORE && one.id != CU_LAUNCH_ATTRIBUTE_PRIORITY) {
      d.unknown(fmt::format("launch attribute {}", static_cast<unsigned>(one.id)));
      refuse(CUDA_ERROR_INVALID_VALUE, "unknown launch attribute");
    }
  }
}

void launch(Driver& d, Context& context, const CUlaunchConfig& config, CUfunction function, void** parameters,
            void** extra) {
  auto stream = find_stream(config.hStream, true);
  LaunchRequest request = request_of(config, find_kernel(function, context));
  request.parameters = parameters;
  request.extra = extra;
  d.note("kernel", request.kernel->info.name);
  d.note("grid", volume(request.grid));
  d.note("block", volume(request.block));
  require(config.attrs || config.numAttrs == 0, CUDA_ERROR_INVALID_VALUE, "no attributes");
  apply_attributes(d, config, request);
  submit(*stream, kernel_work(request, context));
  ++d.counters.kernel_launches;
}

}  // namespace

/// As the occupancy calculator does: limits by blocks, warps, registers and shared memory.
int blocks_per_multiprocessor(const Kernel& kernel, int threads, size_t dynamic_shared) {
  if (threads <= 0 || threads > kernel.max_threads) return 0;
  const int warps = (threads + kWarp - 1) / kWarp;
  int blocks = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  blocks = std::min(blocks, attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / (warps * kWarp));
  const auto warp_registers =
      static_cast<int>(round_up(static_cast<size_t>(std::max(kernel.registers, 1)) * kWarp, kRegisterUnit));
  blocks = std::min(blocks, attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR) / (warp_registers * warps));
  const size_t shared =
      round_up(kernel.info.static_shared_bytes + dynamic_shared +
                   static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)),
               kSharedUnit);
  return std::min(blocks,
                  attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / static_cast<int>(shared));
}

/// A CUfunction of the context, or a CUkernel passed as one.
std::shared_ptr<Kernel> find_kernel(CUfunction handle, const Context& context) {
  Driver& d = driver();
  if (auto function = d.functions.find(handle)) {
    require(function->context.get() == &context, CUDA_ERROR_INVALID_CONTEXT, "a function of another context");
    return function->kernel;
  }
  auto kernel = d.kernels.find(reinterpret_cast<CUkernel>(handle));
  if (!kernel) refuse(CUDA_ERROR_INVALID_HANDLE, "no such function");
  return kernel;
}

std::shared_ptr<const Work> kernel_work(const LaunchRequest& request, const Context& context) {
  check_grid(request);
  check_shared(request, context);
  check_cooperative(request);
  auto work = std::make_shared<Work>();
  work->type = CU_GRAPH_NODE_TYPE_KERNEL;
  work->label = request.kernel->info.name;
  work->kernel = request.kernel;
  auto library = request.kernel->library.lock();
  require(library != nullptr, CUDA_ERROR_INVALID_HANDLE, "the library was unloaded");
  module_on(*library, context.device);
  const Launch launch{request.grid, request.block, request.dynamic_shared, request.cooperative, 0};
  work->run = [library, name = request.kernel->info.name, launch,
               parameters = copy_parameters(request)](Context& where) {
    if (library->unloaded) throw WorkFault(CUDA_ERROR_LAUNCH_FAILED, "its library was unloaded before it ran");
    Driver& d = driver();
    Launch seeded = launch;
    seeded.seed = d.scheduler.draw();
    ++d.counters.kernels_run;
    library->modules.at(where.device)->run(name, seeded, parameters.data());
  };
  return work;
}

}  // namespace stepfuse::vgpu::driver

using namespace stepfuse::vgpu::driver;

VGPU_EXPORT(cuLaunchKernel)
(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
 unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters, void** extra) {
  return context_call("cuLaunchKernel", [&](Driver& d, Context& context) {
    const CUlaunchConfig config{grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, nullptr, 0};
    launch(d, context, config, function, parameters, extra);
  });
}

VGPU_EXPORT(cuLaunchKernelEx)
(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  return context_call("cuLaunchKernelEx", [&](Driver& d, Context& context) {
    require(config, CUDA_ERROR_INVALID_VALUE, "null");
    launch(d, context, *config, function, parameters, extra);
  });
}

VGPU_EXPORT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
(int* blocks, CUfunction function, int block_threads, size_t dynamic_shared_bytes) {
  return context_call("cuOccupancyMaxActiveBlocksPerMultiprocessor", [&](Driver&, Context& context) {
    require(blocks && block_threads > 0, CUDA_ERROR_INVALID_VALUE, "null, or no threads");
    *blocks = blocks_per_multiprocessor(*find_kernel(function, context), block_threads, dynamic_shared_bytes);
  });
}
