// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/rounding.h"
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <bit>

namespace stepfuse::vgpu::corpus {
namespace {

using s8 = int8_t;
using u8 = uint8_t;
using s16 = int16_t;
using u16 = uint16_t;
using s32 = int32_t;
using u32 = uint32_t;
using s64 = int64_t;
using u64 = uint64_t;

template <class Out, class... In>
Case row(const std::string& kernel, Out (*reference)(In...)) {
  return map("convert", kernel, reference);
}

double whole(double x, Rounding mode) {
  switch (mode) {
    case Rounding::Nearest:
      return std::nearbyint(x);
    case Rounding::Zero:
      return std::trunc(x);
    case Rounding::Up:
      return std::ceil(x);
    case Rounding::Down:
      return std::floor(x);
  }
  return x;
}

/// PTX ISA, cvt: out of range is clamped; NaN becomes zero from a single to at most 32 bits, and else the number of
/// which only the highest bit is set.
template <class Int, class Float, Rounding mode>
Int to_integer(Float x) {
  constexpr bool to_zero = sizeof(Float) == 4 && sizeof(Int) == 4;
  if (std::isnan(x)) return to_zero ? 0 : static_cast<Int>(u64{1} << (8 * sizeof(Int) - 1));
  const double value = whole(static_cast<double>(x), mode);
  if (value <= static_cast<double>(std::numeric_limits<Int>::min())) return std::numeric_limits<Int>::min();
  // The largest number itself is no double of 64 bits: the limit here is one above.
  if (value >= std::ldexp(1.0, std::numeric_limits<Int>::digits)) return std::numeric_limits<Int>::max();
  return static_cast<Int>(value);
}

/// An integer of 64 bits as a double and the sign of what is missing.
template <class Int>
Exact exact_integer(Int x) {
  const double near = static_cast<double>(x);
  __extension__ using Wide = __int128;
  return {near, static_cast<double>(static_cast<Wide>(x) - static_cast<Wide>(near))};
}

template <class Int, Rounding mode>
float to_single(Int x) {
  return static_cast<float>(rounded(exact_integer(x), single_format, mode));
}

template <class Int, Rounding mode>
double to_double(Int x) {
  return rounded_to_double(exact_integer(x), mode);
}

template <Rounding mode>
float narrowed(double x) {
  return static_cast<float>(rounded(x, single_format, mode));
}

Cases between_kinds() {
  using enum Rounding;
  return {
      row("f32_to_s32_rz", to_integer<s32, float, Zero>),
      row("f32_to_s32_rn", to_integer<s32, float, Nearest>),
      row("f32_to_s32_ru", to_integer<s32, float, Up>),
      row("f32_to_s32_rd", to_integer<s32, float, Down>),
      row("f32_to_u32_rz", to_integer<u32, float, Zero>),
      row("f32_to_u32_rn", to_integer<u32, float, Nearest>),
      row("f32_to_s64_rz", to_integer<s64, float, Zero>),
      row("f32_to_u64_rd", to_integer<u64, float, Down>),
      row("f64_to_s32_rz", to_integer<s32, double, Zero>),
      row("f64_to_s32_rn", to_integer<s32, double, Nearest>),
      row("f64_to_u32_ru", to_integer<u32, double, Up>),
      row("f64_to_s64_rn", to_integer<s64, double, Nearest>),
      row("f64_to_u64_rz", to_integer<u64, double, Zero>),
      row("s32_to_f32_rn", to_single<s32, Nearest>),
      row("s32_to_f32_rz", to_single<s32, Zero>),
      row("s32_to_f32_ru", to_single<s32, Up>),
      row("u32_to_f32_rd", to_single<u32, Down>),
      row("s64_to_f32_rn", to_single<s64, Nearest>),
      row("u64_to_f32_ru", to_single<u64, Up>),
      row("s64_to_f64_rn", to_double<s64, Nearest>),
      row("s64_to_f64_rz", to_double<s64, Zero>),
      row("u64_to_f64_rd", to_double<u64, Down>),
      row(
          "s32_to_f64", +[](s32 x) { return static_cast<double>(x); }),
      row(
          "u8_to_f32", +[](u8 x) { return static_cast<float>(x); }),
      row(
          "s8_to_f64", +[](s8 x) { return static_cast<double>(x); }),
      row(
          "s16_to_f32", +[](s16 x) { return static_cast<float>(x); }),
      row("f64_to_f32_rn", narrowed<Nearest>),
      row("f64_to_f32_rz", narrowed<Zero>),
      row("f64_to_f32_ru", narrowed<Up>),
      row("f64_to_f32_rd", narrowed<Down>),
      row(
          "f32_to_f64", +[](float x) { return static_cast<double>(x); }),
  };
}

Cases between_integers() {
  return {
      row(
          "narrow_u64_to_u8", +[](u64 x) { return static_cast<u8>(x); }),
      row(
          "narrow_s32_to_s8", +[](s32 x) { return s32{static_cast<s8>(x)}; }),
      row(
          "narrow_s64_to_s16", +[](s64 x) { return s32{static_cast<s16>(x)}; }),
      row(
          "widen_s8_to_s64", +[](s8 x) { return s64{x}; }),
      row(
          "widen_s8_to_u32", +[](s8 x) { return static_cast<u32>(x); }),
      row(
          "widen_u16_to_s64", +[](u16 x) { return s64{x}; }),
      row(
          "widen_s32_to_u64", +[](s32 x) { return static_cast<u64>(x); }),
      row(
          "saturate_s32_to_s8", +[](s32 x) { return static_cast<s8>(std::clamp(x, -128, 127)); }),
      row(
          "saturate_s32_to_u8", +[](s32 x) { return static_cast<u8>(std::clamp(x, 0, 255)); }),
      // A NaN saturates to zero (PTX 9.7.3, .sat), and so does -0.
      row(
          "saturate_f32", +[](float x) { return x > 0 ? std::min(x, 1.0f) : 0.0f; }),
      row(
          "saturating_cvt",
          +[](s32 x) {
            return static_cast<u32>(std::clamp(x, 0, 255)) | static_cast<u32>(std::clamp(x, -32768, 32767)) << 16;
          }),
  };
}

Cases bits() {
  return {
      row(
          "f32_as_s32", +[](float x) { return std::bit_cast<s32>(x); }),
      row(
          "u32_as_f32", +[](u32 x) { return std::bit_cast<float>(x); }),
      row(
          "f64_as_s64", +[](double x) { return std::bit_cast<s64>(x); }),
      row(
          "s64_as_f64", +[](s64 x) { return std::bit_cast<double>(x); }),
      row(
          "f64_words", +[](double x) { return std::bit_cast<s64>(x); }),
      row(
          "f64_from_words", +[](u64 x) { return std::bit_cast<double>(x); }),
  };
}

u16 half_bits(double value) {
  if (std::isnan(value)) return 0x7FFF;
  const u16 sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(rounded(value, half_format, Rounding::Nearest));
  if (std::isinf(magnitude)) return sign | 0x7C00;
  if (magnitude < 0x1p-14) return static_cast<u16>(sign | static_cast<int>(magnitude * 0x1p24));
  const int exponent = std::ilogb(magnitude);
  return static_cast<u16>(sign | (exponent + 15) << 10 |
                          (static_cast<int>(std::ldexp(magnitude, 10 - exponent)) & 1023));
}

void half_through_assembly(Device& device) {
  const std::vector<float> a = edge_values<float>(device, 0, map_size);
  const Array<u16> out = device.allocate<u16>(map_size);
  const Array<float> back = device.allocate<float>(map_size);
  device.launch("half_through_assembly", blocks_for(map_size), {map_block},
                {device.upload(a), out, back, s32(map_size)});
  std::vector<u16> expected, got = device.download(out);
  std::vector<float> expected_back;
  for (size_t i = 0; i < a.size(); i++) {
    expected.push_back(std::isnan(a[i]) ? got[i] : half_bits(a[i]));
    expected_back.push_back(static_cast<float>(rounded(a[i], half_format, Rounding::Nearest)));
  }
  expect_same(got, expected);
  expect_same(device.download(back), expected_back);
}

void bits_in_union(Device& device) {
  const std::vector<u64> a = edge_values<u64>(device, 0, map_size);
  const Array<u64> out = device.allocate<u64>(map_size);
  device.launch("bits_in_union", blocks_for(map_size), {map_block}, {device.upload(a), out, s32(map_size)});
  std::vector<u64> expected;
  for (size_t i = 0; i < a.size(); i++) {
    u64 value = a[i] ^ u64 { 0x5A } << (8 * (i & 7));
    const size_t half = 16 * ((i >> 3) & 3), word = 32 * ((i >> 5) & 1);
    value = (value & ~(u64{0xFFFF} << half)) | (u64{static_cast<u16>((value >> half) + 1)} << half);
    value = (value & ~(u64{0xFFFFFFFF} << word)) | (u64{static_cast<u32>(3 * (value >> word))} << word);
    expected.push_back(value);
  }
  expect_same(device.download(out), expected);
}

}  // namespace

Cases convert_cases() {
  Cases all = between_kinds();
  for (const Cases& more : {between_integers(), bits()}) all.insert(all.end(), more.begin(), more.end());
  all.push_back({"convert", "half_through_assembly", half_through_assembly});
  all.push_back({"convert", "bits_in_union", bits_in_union});
  return all;
}

}  // namespace stepfuse::vgpu::corpus
