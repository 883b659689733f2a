// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The part of NVRTC that the runtime uses, so that building needs no toolkit. Names and values are the library's, the
/// same in 12 and 13; tests/cuda/nvrtc_header_test.cpp compares them with the real header where there is one. Functions
/// are listed in nvrtc_functions.def and looked up at run time.

#include <cstddef>

/// Never defined, here or in the library's header.
struct _nvrtcProgram;

namespace stepfuse::cuda {

using nvrtcProgram = ::_nvrtcProgram*;

enum nvrtcResult : int {
  NVRTC_SUCCESS = 0,
  NVRTC_ERROR_OUT_OF_MEMORY = 1,
  NVRTC_ERROR_COMPILATION = 6,
  NVRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7,
};

/// Pointers to the functions, by their names.
struct NvrtcFunctions {
#define NVRTC_FUNCTION(result, name, parameters) result(*name) parameters = nullptr;
#include "runtime/cuda/api/nvrtc_functions.def"
};

}  // namespace stepfuse::cuda
