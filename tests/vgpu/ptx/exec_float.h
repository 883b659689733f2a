// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace stepfuse::vgpu {

// What the modifiers of floating-point instructions do to the lanes of a register. PTX ISA "Floating-Point
// Instructions".
void flush_lanes(float* values);     // .ftz: subnormal numbers become zero of their sign
void saturate_lanes(float* values);  // .sat: to [0, 1]
void canonical_nans(float* values);
void canonical_nans(double* values);

}  // namespace stepfuse::vgpu
