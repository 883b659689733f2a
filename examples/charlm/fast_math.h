// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numbers>

namespace charlm {

inline std::int32_t bits_of(float x) {
  std::int32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

inline float float_of(std::int32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

/// e^-a for a >= 0, to about 2 units in the last place, without branches and calls, so that compilers vectorise loops
/// over it (the C library's expf would be called once per element). At most e^-87, which is still a normal float.
inline float exp_minus(float a) {
  constexpr auto kLog2E = std::numbers::log2e_v<float>;
  constexpr float kLn2High = 355.0F / 512.0F;  // few bits, so that n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to the nearest integer
  // Floats >= 0 are ordered as their bits are, and compilers do not vectorise a comparison of floats, which may trap.
  const float x = -float_of(std::min(bits_of(a), bits_of(87.0F)));
  const float n = (x * kLog2E + kRound) - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  // The Taylor series to r^7; the remainder is below half a unit in the last place of the sum.
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  return p * float_of((static_cast<std::int32_t>(n) + 127) << 23);
}

/// The sum of f(0) ... f(count - 1) in eight lanes: a fixed order, and one that vectorises.
template <typename F>
float lane_sum(int count, F&& f) {
  constexpr int kLanes = 8;
  float lanes[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += f(i + lane);
  }
  for (int lane = 0; i < count; ++i, ++lane) lanes[lane] += f(i);
  float sum = 0.0F;
  for (const float lane : lanes) sum += lane;
  return sum;
}

}  // namespace charlm
