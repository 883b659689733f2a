// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The 16-bit formats of a GPU as bits: IEEE binary16, and bfloat16, the upper half of binary32. Rounding is to
/// nearest, ties to even; any NaN becomes 0x7fff, as cvt.rn does (PTX ISA 9.7.9.21, cvt).

#include <bit>
#include <cstdint>

namespace stepfuse::vgpu::lt {

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (magnitude << 13));  // infinity or NaN
  if (magnitude >= 0x0400) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;
  return sign != 0 ? -subnormal : subnormal;
}

inline uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and more: half way to 2^16, which does not exist
  if (magnitude < 0x38800000) {                       // below 2^-14: a multiple of 2^-24
    // The last place of an f32 at 0.5 is 2^-24: the sum rounds as wanted.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5F)));
  }
  const uint32_t rounded = magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

}  // namespace stepfuse::vgpu::lt
