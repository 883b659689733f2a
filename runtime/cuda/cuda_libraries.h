// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "runtime/cuda/cuda_architectures.h"
#include "runtime/cuda/find_library.h"

#include <string>
#include <sys/types.h>

namespace stepfuse::runtime {

/// libcublasLt.so.13 or .12, from the places where NVRTC is looked for.
const LibrarySpec& cublaslt_library();
Result<OpenedLibrary> open_cublaslt(const LibraryPlaces& places);
std::string cublaslt_version(const OpenedLibrary& library);  // "13.1"

/// libcuda.so.1, which comes with the machine's driver: only where the dynamic loader finds it, and never the stub that
/// a toolkit has for linkers.
const LibrarySpec& driver_library();
Result<OpenedLibrary> open_driver(const LibraryPlaces& places);
std::string driver_version(const OpenedLibrary& library);  // of CUDA that it serves: "13.0"

/// CUDA does not work in a child that was forked after `initialiser` had initialised it. 0: nobody had.
Outcome check_process_of_cuda(pid_t initialiser);

/// The first device's architecture. Fails where there is no driver or no device.
Result<CudaArch> present_device(const Settings& settings);
/// That of a target by its name; "cuda" is the present device.
Result<CudaArch> cuda_arch_of(const std::string& target, const Settings& settings);

}  // namespace stepfuse::runtime
