// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cuda/emit_cuda.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/kernel_cache.h"

#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// A kernel to compile for one architecture. `identity` is all that its code depends on besides options and
/// architecture; the source is asked for on a miss only.
struct CudaKernelRequest {
  std::string name;  // of the function in the source
  std::string identity;
  std::vector<std::string> options;
  CudaArch arch;
  std::function<Result<std::string>()> source;
  std::string variant = {};  // "aligned", "generic", or nothing: which of a kernel's texts it is, for file names
};

/// Of a fused phase.
CudaKernelRequest fused_kernel_request(const codegen::KernelSpec& spec, const codegen::CudaVariant& variant,
                                       const CudaArch& arch);

/// A kernel as machine code and as the PTX of the same compile, one of which a driver takes. The driver's library
/// belongs to no context: one serves all devices.
class CudaKernel final : public Kernel {
 public:
  /// `compiled_with`: the version of CUDA, "13.0", whose NVRTC made it; empty: not known.
  CudaKernel(std::string name, std::vector<std::byte> cubin, std::string ptx, std::string compiled_with = {})
      : name_(std::move(name)),
        cubin_(std::move(cubin)),
        ptx_(std::move(ptx)),
        compiled_with_(std::move(compiled_with)) {}
  ~CudaKernel() override;
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  const std::string& name() const { return name_; }
  std::span<const std::byte> cubin() const { return cubin_; }
  const std::string& ptx() const { return ptx_; }
  const std::string& compiled_with() const { return compiled_with_; }

  /// The function in the current context, its code on the device already: a first launch would load it otherwise, which
  /// a capture forbids. Machine code first; PTX where the driver has no use for that. Thread-safe.
  Result<cuda::CUfunction> function(const Driver& driver) const;

 private:
  Outcome load(const Driver& driver) const;

  std::string name_;
  std::vector<std::byte> cubin_;
  std::string ptx_;
  std::string compiled_with_;
  mutable std::mutex mutex_;
  mutable const Driver* driver_ = nullptr;
  mutable cuda::CUlibrary library_ = nullptr;
  mutable cuda::CUkernel kernel_ = nullptr;
};

struct FoundCudaKernel {
  std::shared_ptr<const CudaKernel> kernel;
  KernelOrigin origin = KernelOrigin::Memory;
};
Result<FoundCudaKernel> find_cuda_kernel(KernelCache& cache, const Context& context, const CudaKernelRequest& request);

/// Whether a driver that serves CUDA `driver` ("13.0") takes what NVRTC of `compiled_with` made: its PTX from that very
/// version on, machine code from that major version on. Environment, with both versions and what to do, where it does
/// not. Nothing is said where a version is not known.
Outcome check_driver_takes(const std::string& kernel, const std::string& compiled_with, const std::string& driver,
                           bool as_ptx);

/// For a plan's kernels; the context outlives it.
std::unique_ptr<KernelMaker> cuda_kernel_maker(const Context& context, CudaKernelRequest request);

KeyFields cuda_kernel_fields(const CudaKernelRequest& request);

/// Why a kernel entry with this metadata is not what this process would compile; nothing if there is no way to know.
/// Opens no library.
std::optional<std::string> cuda_compiled_otherwise(const std::string& metadata);

/// A kernel entry's code; InvalidData when it is damaged.
Result<std::shared_ptr<const CudaKernel>> load_cuda_kernel(const Entry& entry);

}  // namespace stepfuse::runtime
