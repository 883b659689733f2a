// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/float16.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace stepfuse::vgpu::lt {
namespace {

/// A 16-bit format by its definition: sign, exponent with a bias, fraction. IEEE 754, 3.4.
struct Format {
  int fraction_bits;
  int bias;
  int all_exponents;  // the exponent of infinities and NaNs

  double value(uint16_t bits) const {
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const int exponent = (bits & 0x7fff) >> fraction_bits;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == all_exponents) {
      return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
    }
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  }
};

constexpr Format kF16{10, 15, 31};
constexpr Format kBf16{7, 127, 255};

template <class From, class To>
void check_all(const Format& format, From from, To to) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const double expected = format.value(half);
    const float actual = from(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
      ASSERT_EQ(to(actual), 0x7fff) << bits;
    } else {
      ASSERT_EQ(actual, expected) << bits;
      ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
      ASSERT_EQ(to(actual), half) << bits;
    }
  }
}

/// Around the middle between neighbours; above the largest number its neighbour would be the next power of two.
template <class From, class To>
void check_rounding(const Format& format, From from, To to) {
  const int infinity = format.all_exponents << format.fraction_bits;
  for (int bits = 0; bits < infinity; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const auto above = static_cast<uint16_t>(bits + 1);
    const double upper =
        bits + 1 == infinity ? std::ldexp(1.0, format.all_exponents - format.bias) : static_cast<double>(from(above));
    const auto middle = static_cast<float>((static_cast<double>(from(half)) + upper) / 2);
    const uint16_t even = (bits & 1) == 0 ? half : above;
    ASSERT_EQ(to(middle), even) << bits;
    ASSERT_EQ(to(std::nextafterf(middle, 0)), half) << bits;
    ASSERT_EQ(to(std::nextafterf(middle, std::numeric_limits<float>::infinity())), above) << bits;
    ASSERT_EQ(to(-middle), even | 0x8000) << bits;
  }
}

TEST(LtFloat16, EveryNumberIsWhatItsBitsSay) {
  check_all(kF16, from_f16, to_f16);
  check_all(kBf16, from_bf16, to_bf16);
}

TEST(LtFloat16, RoundsToNearestTiesToEven) {
  check_rounding(kF16, from_f16, to_f16);
  check_rounding(kBf16, from_bf16, to_bf16);
}

}  // namespace
}  // namespace stepfuse::vgpu::lt
