// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace stepfuse::compiler {

/// Most tensors that one phase of a kernel reads and writes, and most reductions it carries: enough for any rule people
/// write, and small enough for a thread's stack and registers.
inline constexpr size_t kMaxKernelArgs = 64;
inline constexpr size_t kMaxKernelReductions = 16;

}  // namespace stepfuse::compiler
