// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/float16.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace stepfuse {
namespace {

/// What a 16-bit pattern stands for, by arithmetic rather than bits. `bias` of its exponent, `fraction_bits` of it.
double meaning(uint16_t bits, int bias, int fraction_bits) {
  const int exponent_mask = (1 << (15 - fraction_bits)) - 1;
  const int exponent = bits >> fraction_bits & exponent_mask;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == exponent_mask) return fraction != 0 ? NAN : sign * INFINITY;
  const double significand = fraction + (exponent != 0 ? 1 << fraction_bits : 0);
  return sign * std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits);
}

struct Format {
  const char* name;
  int bias, fraction_bits;
  uint16_t (*from_f32)(float);
  uint16_t (*from_f64)(double);
  float (*to_f32)(uint16_t);
};

class Float16 : public ::testing::TestWithParam<Format> {};

TEST_P(Float16, EveryPatternMeansItsValueAndComesBack) {
  const Format& format = GetParam();
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double expected = meaning(bits, format.bias, format.fraction_bits);
    const float value = format.to_f32(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << i;
      EXPECT_TRUE(std::isnan(format.to_f32(format.from_f32(value)))) << i;
      EXPECT_EQ(format.from_f64(static_cast<double>(value)) & 0x8000, bits & 0x8000) << i;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << i;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << i;
    ASSERT_EQ(format.from_f32(value), bits);
    ASSERT_EQ(format.from_f64(expected), bits);
  }
}

/// Between each two neighbours: below the middle goes down, above goes up, the middle goes to the even pattern.
TEST_P(Float16, RoundsToNearestEvenBetweenAllNeighbours) {
  const Format& format = GetParam();
  const auto infinity = static_cast<uint16_t>(0x7fff & ~((1 << format.fraction_bits) - 1));
  for (uint16_t low = 0; low < infinity; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const double below = meaning(low, format.bias, format.fraction_bits);
    // The value after the largest finite one is where infinity would be, were the exponents to go on.
    const double above = high == infinity
                             ? 2 * below - meaning(static_cast<uint16_t>(low - 1), format.bias, format.fraction_bits)
                             : meaning(high, format.bias, format.fraction_bits);
    const double middle = (below + above) / 2;
    const uint16_t even = low % 2 == 0 ? low : high;
    for (int sign : {0, 0x8000}) {
      const double factor = sign != 0 ? -1 : 1;
      const auto with_sign = [&](uint16_t bits) { return static_cast<uint16_t>(bits | sign); };
      ASSERT_EQ(format.from_f64(factor * middle), with_sign(even)) << low;
      ASSERT_EQ(format.from_f64(factor * std::nextafter(middle, 0)), with_sign(low)) << low;
      ASSERT_EQ(format.from_f64(factor * std::nextafter(middle, INFINITY)), with_sign(high)) << low;
      const auto narrow = static_cast<float>(middle);
      if (static_cast<double>(narrow) != middle) continue;
      ASSERT_EQ(format.from_f32(static_cast<float>(factor) * narrow), with_sign(even)) << low;
      ASSERT_EQ(format.from_f32(static_cast<float>(factor) * std::nextafter(narrow, 0.0f)), with_sign(low)) << low;
      ASSERT_EQ(format.from_f32(static_cast<float>(factor) * std::nextafter(narrow, INFINITY)), with_sign(high)) << low;
    }
  }
}

TEST_P(Float16, ExtremesOverflowOrVanish) {
  const Format& format = GetParam();
  for (double value : {1e39, 1e300, std::numeric_limits<double>::max()})
    EXPECT_TRUE(std::isinf(format.to_f32(format.from_f64(value))));
  for (double value : {1e-46, 1e-300, std::numeric_limits<double>::denorm_min()}) {
    EXPECT_EQ(format.from_f64(value), 0);
    EXPECT_EQ(format.from_f64(-value), 0x8000);
  }
  EXPECT_TRUE(std::isnan(format.to_f32(format.from_f32(std::bit_cast<float>(0x7f800001)))));
}

INSTANTIATE_TEST_SUITE_P(All, Float16,
                         ::testing::Values(Format{"bf16", 127, 7, bf16_from_f32, bf16_from_f64, bf16_to_f32},
                                           Format{"f16", 15, 10, f16_from_f32, f16_from_f64, f16_to_f32}),
                         [](const auto& param) { return param.param.name; });

TEST(Float16, DoublesRoundOnce) {
  // Rounded to f32 first, both would land on the middle of two 16-bit values and then on the even one.
  EXPECT_EQ(f16_from_f64(1 + 0x1p-11 + 0x1p-40), f16_from_f64(1 + 0x1p-10));
  EXPECT_EQ(bf16_from_f64(1 + 0x1p-8 + 0x1p-40), bf16_from_f64(1 + 0x1p-7));
}

}  // namespace
}  // namespace stepfuse
