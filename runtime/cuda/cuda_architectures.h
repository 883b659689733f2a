// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// What code is compiled for. "sm_90" is machine code, "compute_90" is PTX, which a driver compiles for its device.
/// The number is the compute capability times ten: 90 is 9.0, 103 is 10.3.
struct CudaArch {
  int number = 0;
  char suffix = 0;   // 'a': features of this one capability; 'f': of its family; 0: of all from it on
  bool real = true;  // sm_, else compute_

  std::string name() const;         // "sm_90a"
  std::string name_as_ptx() const;  // "compute_90a"
  friend bool operator==(const CudaArch&, const CudaArch&) = default;
};

/// Nothing unless the text has the form of an architecture; whether there is such a device is not asked.
std::optional<CudaArch> parse_cuda_arch(std::string_view text);
/// "sm_80,sm_90,compute_100", without repetitions and at least one.
Result<std::vector<CudaArch>> parse_cuda_archs(std::string_view text);

/// "9.0"
std::string capability_text(int number);

/// Whether a device of this capability runs the machine code: that of the same major and of no higher minor number.
/// Embedded devices (Jetson) run their own only. Suffix a: that very capability; f: as without a suffix.
bool cubin_serves(const CudaArch& arch, int device);
/// Whether a driver can compile PTX of this architecture for the device: any not above it. Suffix a: that very
/// capability; f: of the same major.
bool ptx_serves(const CudaArch& arch, int device);

/// What this library compiles for on such a device and looks for in caches, best first: machine code that the device
/// runs, then PTX, then machine code of other devices whose PTX serves this one. None for a device
/// older than all of them.
std::vector<CudaArch> archs_for_device(int device);

}  // namespace stepfuse::runtime
