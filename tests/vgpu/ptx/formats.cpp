// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/formats.h"

#include <algorithm>

namespace stepfuse::vgpu {
namespace {

bool rounds_up(bool negative, bool odd, uint64_t rest, uint64_t half, Rounding rounding) {
  if (rest == 0) return false;
  switch (rounding) {
    case Rounding::Nearest:
      return rest > half || (rest == half && odd);
    case Rounding::Away:
      return rest >= half;
    case Rounding::Zero:
      return false;
    case Rounding::Down:
      return negative;
    case Rounding::Up:
      return !negative;
  }
  return false;
}

bool overflows_to_infinity(bool negative, Rounding rounding) {
  if (rounding == Rounding::Down) return negative;
  if (rounding == Rounding::Up) return !negative;
  return rounding != Rounding::Zero;
}

}  // namespace

uint64_t round_to_format(bool negative, uint64_t significand, int exponent, FloatFormat format, Rounding rounding) {
  const int fraction = format.fraction_bits;
  const uint64_t sign = negative ? uint64_t{1} << (format.exponent_bits + fraction) : 0;
  if (significand == 0) return sign;
  const int least = 2 - (1 << (format.exponent_bits - 1));  // of a normal number
  const int top = exponent + static_cast<int>(std::bit_width(significand)) - 1;
  const int scale = std::max(top, least);
  const int shift = scale - fraction - exponent;
  uint64_t kept = 0;
  if (shift <= 0) {
    kept = significand << -shift;
  } else {
    kept = shift >= 64 ? 0 : significand >> shift;
    // Beyond 64 bits what is lost is less than half of the last place.
    const uint64_t half = uint64_t{1} << (std::min(shift, 64) - 1);
    const uint64_t rest = shift >= 64 ? (shift == 64 ? significand : 1) : significand & ((uint64_t{1} << shift) - 1);
    kept += rounds_up(negative, kept & 1, rest, half, rounding);
  }
  const uint64_t bits = (static_cast<uint64_t>(scale - least) << fraction) + kept;
  const uint64_t infinity = ((uint64_t{1} << format.exponent_bits) - 1) << fraction;
  if (bits < infinity) return sign | bits;
  return sign | (overflows_to_infinity(negative, rounding) ? infinity : infinity - 1);
}

uint64_t encode(double value, FloatFormat format, Rounding rounding) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const bool negative = bits >> 63 != 0;
  if (std::isinf(value)) {
    const uint64_t sign = negative ? uint64_t{1} << (format.exponent_bits + format.fraction_bits) : 0;
    return sign | ((uint64_t{1} << format.exponent_bits) - 1) << format.fraction_bits;
  }
  const auto biased = static_cast<int>(bits >> 52 & 2047);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const uint64_t significand = biased == 0 ? fraction : fraction | uint64_t{1} << 52;
  return round_to_format(negative, significand, std::max(biased, 1) - 1075, format, rounding);
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31;
  const uint32_t exponent = bits >> 10 & 31;
  const uint32_t fraction = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  // The error of the sum, exact (Knuth's TwoSum).
  const double part = sum - a;
  const double error = (a - (sum - part)) + (b - part);
  auto bits = std::bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  // Of the two neighbours around the exact sum take the odd one.
  const bool away = (error > 0) == (sum > 0);
  bits = away ? bits + 1 : bits - 1;
  return std::bit_cast<double>(bits);
}

}  // namespace stepfuse::vgpu
