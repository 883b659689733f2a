// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/float16.h"

#include <bit>
#include <cmath>

namespace stepfuse {

namespace {

/// f64 to f32 rounded to odd: rounding the result once more, to a format at least two bits narrower, equals rounding
/// the f64 directly.
float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if ((bits & 1u) != 0) return nearest;
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  return std::bit_cast<float>(away ? bits - 1 : bits + 1);
}

/// value / 2^shift to nearest even, for 1 <= shift <= 31.
uint32_t shift_right_rne(uint32_t value, uint32_t shift) {
  const uint32_t quotient = value >> shift;
  const uint32_t rest = value & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  const bool up = rest > half || (rest == half && (quotient & 1u) != 0);
  return quotient + (up ? 1 : 0);
}

constexpr uint32_t kF32Infinity = 0x7f800000;
constexpr uint32_t kF32TwoTo16 = 0x47800000;       // everything from here on is infinite in f16
constexpr uint32_t kF32TwoToMinus14 = 0x38800000;  // the smallest normal f16

uint32_t f16_magnitude(uint32_t magnitude) {
  if (magnitude > kF32Infinity) return 0x7e00;
  if (magnitude >= kF32TwoTo16) return 0x7c00;
  if (magnitude >= kF32TwoToMinus14) return shift_right_rne(magnitude - (112u << 23), 13);
  const uint32_t exponent = magnitude >> 23;
  if (exponent < 102) return 0;  // below half of the smallest subnormal
  return shift_right_rne((magnitude & 0x7fffffu) | 0x800000u, 126 - exponent);
}

}  // namespace

uint16_t bf16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>(shift_right_rne(bits, 16));
}

uint16_t bf16_from_f64(double value) { return bf16_from_f32(round_to_odd(value)); }

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | f16_magnitude(bits & 0x7fffffffu));
}

uint16_t f16_from_f64(double value) { return f16_from_f32(round_to_odd(value)); }

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | kF32Infinity | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

}  // namespace stepfuse
