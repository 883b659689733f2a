// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Generated CUDA kernels on the PTX machine, and the same kernels on the CPU.

#include "codegen/cuda/kernel_abi.h"
#include "runtime/cpu/object_loader.h"
#include "tests/unit/kernel_model.h"
#include "tests/vgpu/ptx/machine.h"

#include <memory>
#include <string>
#include <vector>

namespace stepfuse::test {

/// One parameter's launch, and the results of its reductions.
struct Member {
  Launch launch;
  std::vector<Buffer> results;
  bool skip = false;
};

/// Awkward values in dense arguments (kernel_model.h); results hold what no kernel stores.
Member make_member(const codegen::KernelSpec& spec, std::array<int64_t, 3> dims, uint64_t seed);

/// By the CPU backend: its kernel, and the runtime's way to finish reductions. Skipped members stay as they are.
void run_on_cpu(const runtime::LoadedKernel& kernel, const codegen::KernelSpec& spec, Member& member);

/// A kernel's PTX, ready to run on the machine.
class DeviceKernel {
 public:
  /// `arch` as in "compute_90". Throws std::runtime_error with the compiler's log.
  DeviceKernel(const codegen::KernelSpec& spec, codegen::CudaVariant variant, const std::string& arch);
  ~DeviceKernel();

  /// One launch for all members, in an order of blocks that follows from the seed, looking for races. With `shift`,
  /// arguments begin that many elements behind a multiple of 16 bytes.
  void run(std::vector<Member>& members, uint64_t seed, int64_t shift = 0);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether NVRTC can be opened; else why not.
std::string why_no_nvrtc();

/// Empty when arguments and results hold the same bits (any NaN equals any NaN), else the first difference.
std::string difference(const Member& got, const Member& want);

}  // namespace stepfuse::test
