// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cuda/kernel_text.h"

namespace stepfuse::codegen {

/// The kernel's function, into text.out. Returns what must stand right above it ("store_results", or nothing).
std::string write_cuda_kernel(KernelText& text);

}  // namespace stepfuse::codegen
