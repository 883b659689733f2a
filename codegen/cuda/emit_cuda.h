// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cuda/kernel_abi.h"
#include "ir/support/status.h"

#include <string>
#include <vector>

namespace stepfuse::codegen {

/// The kernel as CUDA C++ that needs no header: one function (kernel_abi.h), and above it what it uses. Pure: equal
/// input, equal text.
Result<std::string> emit_cuda(const KernelSpec& spec, const CudaVariant& variant);

/// The function's name in that text: spec.name, as far as it is an identifier.
std::string cuda_kernel_name(const KernelSpec& spec);

/// NVRTC's options that the text relies on, all but the architecture. IEEE division, square root and subnormals always;
/// contraction only in default mode.
std::vector<std::string> nvrtc_options(ir::Mode mode);

}  // namespace stepfuse::codegen
