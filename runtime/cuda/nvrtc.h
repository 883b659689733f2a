// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "runtime/cuda/api/nvrtc.h"
#include "runtime/cuda/cuda_architectures.h"
#include "runtime/cuda/find_library.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// What ptxas says of a program; of several kernels the worst.
struct KernelUsage {
  int registers = 0;     // of a thread
  int spill_bytes = 0;   // stored plus loaded
  int shared_bytes = 0;  // of a block
};

struct CudaBinary {
  std::vector<std::byte> cubin;  // empty for compute_ architectures
  std::string ptx;
  std::string log;                   // warnings, and what ptxas says; has times in it
  std::optional<KernelUsage> usage;  // where there is a cubin and its compiler said so
};

/// The compiler of CUDA C++, opened at run time. It needs neither a driver nor a device, and what we generate needs no
/// header of the toolkit. Thread-safe.
class Nvrtc {
 public:
  /// Opens NVRTC once per process and file; later calls get the same object. Only success is final.
  static Result<const Nvrtc*> open(const Settings& settings);
  /// The same by places of a caller's choice, not shared.
  static Result<std::unique_ptr<const Nvrtc>> open_in(const LibraryPlaces& places);
  static const LibrarySpec& library();

  std::string version() const { return fmt::format("{}.{}", major_, minor_); }  // "13.0"
  const std::string& path() const { return opened_.path; }
  LibraryOrigin origin() const { return opened_.origin; }
  const std::string& rule() const { return opened_.rule; }
  /// Architectures it compiles for, without suffixes, ascending: 75, 80, ...
  std::span<const int> supported_archs() const { return archs_; }

  /// A real architecture gives machine code and the PTX of the same compile; a virtual one PTX only. `name` stands in
  /// messages. No folder for headers is given. A source that does not compile is Internal, with the log in the message;
  /// an architecture that this NVRTC does not know is Environment.
  Result<CudaBinary> compile(const std::string& source, const std::string& name,
                             const std::vector<std::string>& options, const CudaArch& arch) const;

  /// Refuses an architecture that is not in supported_archs().
  Outcome check_arch(const CudaArch& arch) const;

 private:
  explicit Nvrtc(OpenedLibrary opened) : opened_(std::move(opened)) {}
  Outcome load();
  Outcome load_builtins() const;
  tl::unexpected<Status> unknown_arch(const CudaArch& arch) const;
  tl::unexpected<Status> failure(cuda::nvrtcResult status, const std::string& log, const std::string& name,
                                 const CudaArch& arch) const;

  OpenedLibrary opened_;
  cuda::NvrtcFunctions call_{};
  int major_ = 0, minor_ = 0;
  std::vector<int> archs_;
};

/// Reads the lines that --ptxas-options=--verbose adds to a log; nothing if there are none.
std::optional<KernelUsage> read_usage(std::string_view log);

}  // namespace stepfuse::runtime
