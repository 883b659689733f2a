// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace stepfuse {

// Conversions between f32, f64 and the two 16-bit formats, as bit patterns. Narrowing rounds once, to nearest even;
// overflow gives infinity, subnormals are kept, NaN stays NaN (quiet, same sign).

uint16_t bf16_from_f32(float value);
uint16_t bf16_from_f64(double value);
float bf16_to_f32(uint16_t bits);

uint16_t f16_from_f32(float value);
uint16_t f16_from_f64(double value);
float f16_to_f32(uint16_t bits);

}  // namespace stepfuse
