// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/corpus/rounding.h"

#include <cmath>
#include <cstdint>

namespace stepfuse::vgpu::corpus {

/// A 16-bit floating-point number as its bits, and what it is worth.
template <const Format& format>
struct Narrow {
  uint16_t bits = 0;

  static constexpr int fraction_bits = format.digits - 1;

  static Narrow of(double value, Rounding mode = Rounding::Nearest) {
    if (std::isnan(value)) return {0x7FFF};
    const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const double magnitude = std::abs(rounded(value, format, mode));
    if (std::isinf(magnitude)) return {static_cast<uint16_t>(sign | (0x7FFF >> fraction_bits << fraction_bits))};
    if (magnitude == 0) return {sign};
    const int exponent = std::max(std::ilogb(magnitude), format.min_exponent);
    const int fraction = static_cast<int>(std::ldexp(magnitude, fraction_bits - exponent));
    // A normal number's fraction holds its leading bit, which makes one of the exponent's.
    return {static_cast<uint16_t>(sign | (((exponent - format.min_exponent) << fraction_bits) + fraction))};
  }

  bool is_nan() const { return (bits & 0x7FFF) > (0x7FFF >> fraction_bits << fraction_bits); }

  double value() const {
    const int exponent = (bits & 0x7FFF) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
    double magnitude = 0;
    if (exponent == 0x7FFF >> fraction_bits) {
      magnitude = fraction != 0 ? NAN : INFINITY;
    } else if (exponent == 0) {
      magnitude = std::ldexp(fraction, format.min_exponent - fraction_bits);
    } else {
      magnitude = std::ldexp(fraction + (1 << fraction_bits), format.min_exponent + exponent - 1 - fraction_bits);
    }
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }

  friend bool operator==(Narrow a, Narrow b) { return a.bits == b.bits || (a.is_nan() && b.is_nan()); }
};

using Half = Narrow<half_format>;
using Bfloat = Narrow<bfloat_format>;

/// A sum, a product or a fused one, rounded once. Products of narrow numbers are exact in double.
template <class N>
N rounded_sum(double a, double b, Rounding mode = Rounding::Nearest) {
  return N::of(to_odd(exact_sum(a, b)), mode);
}

}  // namespace stepfuse::vgpu::corpus
