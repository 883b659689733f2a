// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/syntax.h"

namespace stepfuse::vgpu {

/// The most 32-bit registers that hold a value still to be read, at any instruction of the function.
uint32_t most_live_registers(const Function& function);

}  // namespace stepfuse::vgpu
