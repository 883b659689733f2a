// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/decode.h"
#include "tests/vgpu/ptx/warp.h"

namespace stepfuse::vgpu {

Space take_space(Decoder& d);

/// [base + offset] of an instruction whose space is in access.space; a variable settles the space if it is open.
void take_address(Decoder& d, MemoryAccess& access, const Operand& operand);

uint32_t add_access(Decoder& d, const MemoryAccess& access);

/// The bytes of one lane's access, checked and noted for races.
std::byte* access_lane(Warp& warp, const MemoryAccess& access, uint32_t lane, bool write);

}  // namespace stepfuse::vgpu
