// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/program.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace stepfuse::vgpu {

/// A binary floating-point format: PTX ISA "Floating-Point Types", "Alternate Floating-Point Data Formats"; IEEE 754.
struct FloatFormat {
  int exponent_bits = 0;
  int fraction_bits = 0;
};

inline constexpr FloatFormat kHalfFormat{5, 10};
inline constexpr FloatFormat kBfloatFormat{8, 7};
inline constexpr FloatFormat kSingleFormat{8, 23};
inline constexpr FloatFormat kDoubleFormat{11, 52};

/// significand * 2^exponent, rounded once. Overflow becomes infinity or the largest number, as the mode says.
uint64_t round_to_format(bool negative, uint64_t significand, int exponent, FloatFormat format, Rounding rounding);

/// A double that is no NaN, rounded once.
uint64_t encode(double value, FloatFormat format, Rounding rounding);

float half_to_float(uint16_t bits);
inline float bfloat_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// NaN results are canonical: PTX ISA "Floating-Point Comparisons" and each instruction's notes.
inline constexpr uint16_t kHalfNan = 0x7fff;
inline constexpr uint32_t kSingleNan = 0x7fffffff;
// Of double precision the ISA leaves the payload open; this is what devices make.
inline constexpr uint64_t kDoubleNan = 0xfff8000000000000;

inline uint16_t to_half(double value) {
  return std::isnan(value) ? kHalfNan : static_cast<uint16_t>(encode(value, kHalfFormat, Rounding::Nearest));
}
inline uint16_t to_bfloat(double value) {
  return std::isnan(value) ? kHalfNan : static_cast<uint16_t>(encode(value, kBfloatFormat, Rounding::Nearest));
}

/// a + b with the last bit set if it is not exact ("round to odd"): rounding it again to a format of at most half the
/// bits gives what one rounding of the exact sum gives.
double add_to_odd(double a, double b);

}  // namespace stepfuse::vgpu
