// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace stepfuse::vgpu::corpus {

enum class Rounding { Nearest, Zero, Up, Down };

/// An exact real number as the double nearest to it and the sign of what is missing: exact = near + rest.
struct Exact {
  double near = 0, rest = 0;
};

/// The sum of Knuth's two-sum, exact unless it overflows.
inline Exact exact_sum(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return {sum, 0};
  const double other = sum - a;
  return {sum, (a - (sum - other)) + (b - other)};
}

inline Exact exact_product(double a, double b) {
  const double product = a * b;
  return {product, std::isfinite(product) ? std::fma(a, b, -product) : 0};
}

/// a - near * b has the sign of the rest of a / b when b is positive.
inline Exact exact_quotient(double a, double b) {
  const double quotient = a / b;
  if (!std::isfinite(quotient) || !std::isfinite(b)) return {quotient, std::isinf(b) ? 0 : std::fma(-quotient, b, a)};
  return {quotient, std::copysign(1.0, b) * std::fma(-quotient, b, a)};
}

inline Exact exact_root(double a) {
  const double root = std::sqrt(a);
  return {root, std::isfinite(root) ? std::fma(-root, root, a) : 0};
}

/// A double of at least two bits more than any narrower format that rounds from it as the exact number would: the last
/// bit is made odd where something is missing (rounding to odd).
inline double to_odd(const Exact& exact) {
  if (exact.rest == 0 || !std::isfinite(exact.near) || std::isnan(exact.rest)) return exact.near;
  const double toward = exact.rest > 0 ? INFINITY : -INFINITY;
  uint64_t bits = 0;
  std::memcpy(&bits, &exact.near, sizeof bits);
  return (bits & 1) != 0 ? exact.near : std::nextafter(exact.near, toward);
}

/// A binary format narrower than double.
struct Format {
  int digits, min_exponent, max_exponent;  // of the smallest and the largest normal number, as 1.xxx * 2^exponent
};
inline constexpr Format single_format{24, -126, 127}, half_format{11, -14, 15}, bfloat_format{8, -126, 127};

/// `value` rounded to `format`, IEEE 754 section 4.3: too large a number becomes infinite or the largest finite one.
inline double rounded(double value, const Format& format, Rounding mode) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.min_exponent) - format.digits + 1;
  const double scaled = std::ldexp(value, -exponent);  // exact: no format reaches down to double's own smallest numbers
  double whole = std::nearbyint(scaled);
  if (mode == Rounding::Zero) whole = std::trunc(scaled);
  if (mode == Rounding::Up) whole = std::ceil(scaled);
  if (mode == Rounding::Down) whole = std::floor(scaled);
  const double result = std::copysign(std::ldexp(whole, exponent), value);
  const double largest = std::ldexp(2 - std::ldexp(1.0, 1 - format.digits), format.max_exponent);
  if (std::abs(result) <= largest) return result;
  const bool stays = mode == Rounding::Zero || mode == (value > 0 ? Rounding::Down : Rounding::Up);
  return std::copysign(stays ? largest : INFINITY, value);
}

inline double rounded(const Exact& exact, const Format& format, Rounding mode) {
  return rounded(to_odd(exact), format, mode);
}

/// a * b + c for operands of a narrow format, whose product is an exact double.
inline Exact exact_fma(double a, double b, double c) { return exact_sum(a * b, c); }

/// Rounding to double itself. The rest must be exact in sign, hence no result near the smallest numbers.
inline double rounded_to_double(const Exact& exact, Rounding mode) {
  if (exact.rest == 0 || !std::isfinite(exact.near) || std::isnan(exact.rest)) return exact.near;
  const bool below = exact.rest > 0;  // near lies below the exact number
  if (mode == Rounding::Up && below) return std::nextafter(exact.near, INFINITY);
  if (mode == Rounding::Down && !below) return std::nextafter(exact.near, -INFINITY);
  if (mode == Rounding::Zero && below != (exact.near > 0)) return std::nextafter(exact.near, 0);
  return exact.near;
}

}  // namespace stepfuse::vgpu::corpus
