// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace stepfuse::vgpu::lt {

/// The library that is stood in for: cuBLAS 13.1.0 of CUDA 13.0, of which the header and the guide were read.
inline constexpr uint32_t kVersion = 130100;
inline constexpr uint32_t kCudartVersion = 13000;

}  // namespace stepfuse::vgpu::lt
