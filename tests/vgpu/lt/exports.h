// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Declares the functions of cuBLASLt, which the files of this library define and export.

#include "runtime/cuda/api/cublaslt.h"

namespace stepfuse::cuda {

#define STEPFUSE_CUBLASLT_FUNCTION(result, name, parameters) \
  extern "C" __attribute__((visibility("default"))) result name parameters;
#include "runtime/cuda/api/cublaslt_functions.def"

}  // namespace stepfuse::cuda
