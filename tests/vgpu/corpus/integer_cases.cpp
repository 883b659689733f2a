// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

namespace stepfuse::vgpu::corpus {
namespace {

using s8 = int8_t;
using u8 = uint8_t;
using u16 = uint16_t;
using s32 = int32_t;
using u32 = uint32_t;
using s64 = int64_t;
using u64 = uint64_t;
__extension__ using s128 = __int128;
__extension__ using u128 = unsigned __int128;

template <class Out, class... In>
Case row(const std::string& kernel, Out (*reference)(In...)) {
  return map("integer", kernel, reference);
}

template <class T>
s32 comparisons(T x, T y) {
  return (x < y) | (x <= y) << 1 | (x > y) << 2 | (x >= y) << 3 | (x == y) << 4 | (x != y) << 5;
}

/// Applies `operation` to lanes of `bits` bits each.
template <class Operation>
u32 lanes(int bits, u32 x, u32 y, Operation operation) {
  const u32 mask = (1u << bits) - 1;
  u32 result = 0;
  for (int shift = 0; shift < 32; shift += bits) {
    result |= (static_cast<u32>(operation((x >> shift) & mask, (y >> shift) & mask)) & mask) << shift;
  }
  return result;
}

s32 signed_lane(u32 value, int shift, int bits) {
  return static_cast<s32>(value << (32 - bits - shift)) >> (32 - bits);
}

/// Byte k of the result is byte (s >> 4k) & 7 of y:x. The intrinsic, unlike the instruction, knows no sign.
u32 permute(u32 x, u32 y, u32 selectors) {
  u32 result = 0;
  for (int k = 0; k < 4; k++) {
    const u32 selector = (selectors >> (4 * k)) & 7;
    result |= (static_cast<u32>(((u64{y} << 32) | x) >> (8 * selector)) & 255) << (8 * k);
  }
  return result;
}

template <class T>
T reversed_bits(T x) {
  T result = 0;
  for (size_t k = 0; k < 8 * sizeof x; k++) result |= T((x >> k) & 1) << (8 * sizeof x - 1 - k);
  return result;
}

Cases arithmetic() {
  return {
      row(
          "add_u32", +[](u32 x, u32 y) { return x + y; }),
      row(
          "sub_u64", +[](u64 x, u64 y) { return x - y; }),
      row(
          "mul_u32", +[](u32 x, u32 y) { return x * y; }),
      row(
          "mul_u64", +[](u64 x, u64 y) { return x * y; }),
      row(
          "mul_wide_s32", +[](s32 x, s32 y) { return s64{x} * y; }),
      row(
          "mul_wide_u32", +[](u32 x, u32 y) { return u64{x} * y; }),
      row(
          "mad_u32", +[](u32 x, u32 y, u32 z) { return x * y + z; }),
      row(
          "mad_wide_s32", +[](s32 x, s32 y, s64 z) { return static_cast<s64>(u64(s64{x} * y) + u64(z)); }),
      row(
          "div_u32", +[](u32 x, u32 y) { return x / (y | 1); }),
      row(
          "rem_u32", +[](u32 x, u32 y) { return x % (y | 1); }),
      row(
          "div_s32", +[](s32 x, s32 y) { return (x >> 1) / (y | 1); }),
      row(
          "rem_s32", +[](s32 x, s32 y) { return (x >> 1) % (y | 1); }),
      row(
          "div_u64", +[](u64 x, u64 y) { return x / (y | 1); }),
      row(
          "rem_u64", +[](u64 x, u64 y) { return x % (y | 1); }),
      row(
          "div_s64", +[](s64 x, s64 y) { return (x >> 1) / (y | 1); }),
      row(
          "rem_s64", +[](s64 x, s64 y) { return (x >> 1) % (y | 1); }),
      row(
          "div_by_constants", +[](u32 x) { return x / 7u + (x / 641u) * 3u + x / 1000000007u; }),
      row(
          "div_by_constants_s32",
          +[](s32 x) {
            return static_cast<s32>(u32(x / 7) - u32(x / -13) + u32(x % 1000) + u32(x / 8) - u32(x % 16));
          }),
      row(
          "div_by_constants_u64", +[](u64 x) { return x / 10u + (x / 1000000007u) * 5u; }),
      row(
          "div_u16", +[](u16 x, u16 y) { return static_cast<u16>(x / (y | 1)); }),
      row(
          "div_s8", +[](s8 x, s8 y) { return x / (y == 0 ? 3 : y); }),
  };
}

/// High halves, means, extremes and comparisons.
Cases more_arithmetic() {
  return {
      row(
          "mulhi_s32", +[](s32 x, s32 y) { return static_cast<s32>((s64{x} * y) >> 32); }),
      row(
          "mulhi_u32", +[](u32 x, u32 y) { return static_cast<u32>((u64{x} * y) >> 32); }),
      row(
          "mulhi_s64", +[](s64 x, s64 y) { return static_cast<s64>((s128{x} * y) >> 64); }),
      row(
          "mulhi_u64", +[](u64 x, u64 y) { return static_cast<u64>((u128{x} * y) >> 64); }),
      row(
          "mul24_s32",
          +[](s32 x, s32 y) {
            return static_cast<s32>(u32(signed_lane(u32(x), 0, 24)) * u32(signed_lane(u32(y), 0, 24)));
          }),
      row(
          "mul24_u32", +[](u32 x, u32 y) { return (x & 0xFFFFFF) * (y & 0xFFFFFF); }),
      row(
          "sad_s32", +[](s32 x, s32 y, u32 z) { return static_cast<u32>(std::abs(s64{x} - y)) + z; }),
      row(
          "sad_u32", +[](u32 x, u32 y, u32 z) { return (x > y ? x - y : y - x) + z; }),
      row(
          "hadd_s32", +[](s32 x, s32 y) { return static_cast<s32>((s64{x} + y) >> 1); }),
      row(
          "rhadd_s32", +[](s32 x, s32 y) { return static_cast<s32>((s64{x} + y + 1) >> 1); }),
      row(
          "uhadd_u32", +[](u32 x, u32 y) { return static_cast<u32>((u64{x} + y) >> 1); }),
      row(
          "urhadd_u32", +[](u32 x, u32 y) { return static_cast<u32>((u64{x} + y + 1) >> 1); }),
      row(
          "min_s32", +[](s32 x, s32 y) { return std::min(x, y); }),
      row(
          "max_u32", +[](u32 x, u32 y) { return std::max(x, y); }),
      row(
          "min_u64", +[](u64 x, u64 y) { return std::min(x, y); }),
      row(
          "max_s64", +[](s64 x, s64 y) { return std::max(x, y); }),
      row(
          "abs_s32", +[](s32 x) { return x < 0 ? 0 - u32(x) : u32(x); }),
      row(
          "abs_s64", +[](s64 x) { return x < 0 ? 0 - u64(x) : u64(x); }),
      row(
          "clamp_s32", +[](s32 x, s32 y, s32 z) { return std::clamp(x, std::min(y, z), std::max(y, z)); }),
      row("compare_s32", comparisons<s32>),
      row("compare_u64", comparisons<u64>),
      row(
          "select_s64", +[](s64 x, s64 y, s32 z) { return z > 0 ? x : y; }),
  };
}

Cases bits() {
  return {
      row(
          "logic_u32", +[](u32 x, u32 y, u32 z) { return (x & y) ^ (~x | z); }),
      row(
          "majority_u64", +[](u64 x, u64 y, u64 z) { return (x & y) | (y & z) | (x & z); }),
      row(
          "shift_left_u32", +[](u32 x, u32 y) { return x << (y & 31); }),
      row(
          "shift_right_s32", +[](s32 x, u32 y) { return x >> (y & 31); }),
      row(
          "shift_right_u64", +[](u64 x, u32 y) { return x >> (y & 63); }),
      row(
          "shift_right_s64", +[](s64 x, u32 y) { return x >> (y & 63); }),
      row(
          "shift_u16", +[](u16 x, u32 y) { return static_cast<u16>((x << (y & 15)) | (x >> (16 - (y & 15)))); }),
      row(
          "rotate_u32", +[](u32 x, u32 y) { return std::rotl(x, static_cast<int>(y & 31)); }),
      row(
          "rotate_u64", +[](u64 x, u32 y) { return std::rotl(x, static_cast<int>(y & 63)); }),
      row(
          "clz_u32", +[](s32 x) { return std::countl_zero(u32(x)); }),
      row(
          "clz_u64", +[](s64 x) { return std::countl_zero(u64(x)); }),
      row(
          "ffs_u32", +[](s32 x) { return x == 0 ? 0 : std::countr_zero(u32(x)) + 1; }),
      row(
          "ffs_u64", +[](s64 x) { return x == 0 ? 0 : std::countr_zero(u64(x)) + 1; }),
      row(
          "popc_u32", +[](u32 x) { return std::popcount(x); }),
      row(
          "popc_u64", +[](u64 x) { return std::popcount(x); }),
      row("brev_u32", reversed_bits<u32>),
      row("brev_u64", reversed_bits<u64>),
      row("byte_perm", permute),
      row(
          "byte_swap", +[](u32 x) { return (x >> 24) | ((x >> 8) & 0xFF00) | ((x << 8) & 0xFF0000) | (x << 24); }),
      row(
          "funnel_left",
          +[](u32 x, u32 y, u32 z) { return static_cast<u32>((((u64{y} << 32) | x) << (z & 31)) >> 32); }),
      row(
          "funnel_right", +[](u32 x, u32 y, u32 z) { return static_cast<u32>(((u64{y} << 32) | x) >> (z & 31)); }),
      row(
          "funnel_left_clamp",
          +[](u32 x, u32 y, u32 z) { return static_cast<u32>((((u64{y} << 32) | x) << std::min(z, 32u)) >> 32); }),
      row(
          "funnel_right_clamp",
          +[](u32 x, u32 y, u32 z) { return static_cast<u32>(((u64{y} << 32) | x) >> std::min(z, 32u)); }),
      row(
          "bit_field_extract", +[](u32 x, u32 y) { return (x >> (y & 31)) & ((1u << ((y >> 5) & 15)) - 1); }),
      row(
          "bit_field_signed", +[](s32 x) { return signed_lane(u32(x), 13, 12); }),
      row(
          "bit_field_struct",
          +[](u32 x, u32 y) {
            const u32 low = x & 31, middle = ((x >> 5) + y) & 0x7FF, high = ((x >> 16) - low) & 0xFFFF;
            return low | middle << 5 | high << 16;
          }),
  };
}

u32 dot_bytes(u32 x, u32 y, u32 z, bool has_sign) {
  for (int shift = 0; shift < 32; shift += 8) {
    z += has_sign ? u32(signed_lane(x, shift, 8) * signed_lane(y, shift, 8))
                  : ((x >> shift) & 255) * ((y >> shift) & 255);
  }
  return z;
}

/// Two 16-bit numbers of x by the two bytes of y that start at bit `first`.
u32 dot_pairs(u32 x, u32 y, u32 z, int first) {
  for (int k = 0; k < 2; k++) z += u32(signed_lane(x, 16 * k, 16) * signed_lane(y, first + 8 * k, 8));
  return z;
}

Cases packed() {
  return {
      row(
          "vadd4", +[](u32 x, u32 y) { return lanes(8, x, y, [](u32 a, u32 b) { return a + b; }); }),
      row(
          "vsub2", +[](u32 x, u32 y) { return lanes(16, x, y, [](u32 a, u32 b) { return a - b; }); }),
      row(
          "vmaxs2",
          +[](u32 x, u32 y) {
            return lanes(16, x, y, [](u32 a, u32 b) { return std::max(s32(int16_t(a)), s32(int16_t(b))); });
          }),
      row(
          "vminu4", +[](u32 x, u32 y) { return lanes(8, x, y, [](u32 a, u32 b) { return std::min(a, b); }); }),
      row(
          "vcmpgtu4", +[](u32 x, u32 y) { return lanes(8, x, y, [](u32 a, u32 b) { return a > b ? 255 : 0; }); }),
      row(
          "vavgu4", +[](u32 x, u32 y) { return lanes(8, x, y, [](u32 a, u32 b) { return (a + b + 1) / 2; }); }),
      row(
          "dot_bytes_s", +[](s32 x, s32 y, s32 z) { return s32(dot_bytes(u32(x), u32(y), u32(z), true)); }),
      row(
          "dot_bytes_u", +[](u32 x, u32 y, u32 z) { return dot_bytes(x, y, z, false); }),
      row(
          "dot_pairs_s",
          +[](s32 x, s32 y, s32 z) {
            return s32(dot_pairs(u32(x), u32(y), u32(z), 0) ^ dot_pairs(u32(x), u32(y), u32(z), 16));
          }),
  };
}

/// Kernels on little-endian pairs of words, two words per element.
template <class Reference>
Case on_pairs(const std::string& kernel, bool one_word_in, Reference reference) {
  return {"integer", kernel, [=](Device& device) {
            const size_t size = 500, words = one_word_in ? size : 2 * size;
            const std::vector<u64> a = edge_values<u64>(device, 0, words), b = edge_values<u64>(device, 1, words);
            const Array<u64> out = device.allocate<u64>(2 * size);
            device.launch(kernel, blocks_for(size), {map_block}, {device.upload(a), device.upload(b), out, s32(size)});
            std::vector<u64> expected;
            for (size_t i = 0; i < size; i++) {
              const u128 x = one_word_in ? u128{a[i]} : u128{a[2 * i + 1]} << 64 | a[2 * i];
              const u128 y = one_word_in ? u128{b[i]} : u128{b[2 * i + 1]} << 64 | b[2 * i];
              const u128 result = reference(x, y);
              expected.push_back(static_cast<u64>(result));
              expected.push_back(static_cast<u64>(result >> 64));
            }
            expect_same(device.download(out), expected);
          }};
}

u64 power_modulo(u64 base, u32 exponent) {
  u128 result = 1;
  for (int bit = 31; bit >= 0; bit--) {
    result = result * result % 4294967291u;
    if (((exponent >> bit) & 1) != 0) result = result * (base % 4294967291u) % 4294967291u;
  }
  return static_cast<u64>(result);
}

u64 interleaved(u32 x, u32 y) {
  u64 result = 0;
  for (int k = 0; k < 32; k++) result |= (u64{(x >> k) & 1} << (2 * k)) | (u64{(y >> k) & 1} << (2 * k + 1));
  return result;
}

Cases programs() {
  return {
      on_pairs("add_128", false, [](u128 x, u128 y) { return x + y; }),
      on_pairs("add_carry_chain", false, [](u128 x, u128 y) { return x + y; }),
      on_pairs("mul_128", true, [](u128 x, u128 y) { return x * y; }),
      row("power_modulo", power_modulo),
      row(
          "greatest_common_divisor", +[](u32 x, u32 y) { return std::gcd(x, y); }),
      row(
          "integer_square_root", +[](u32 x) { return static_cast<u32>(std::sqrt(static_cast<double>(x))); }),
      row("morton_code", interleaved),
  };
}

}  // namespace

Cases integer_cases() {
  Cases all = arithmetic();
  for (const Cases& more : {more_arithmetic(), bits(), packed(), programs()})
    all.insert(all.end(), more.begin(), more.end());
  Case differences = map(
      "refused_video", "vabsdiffu4",
      +[](u32 x, u32 y) { return lanes(8, x, y, [](u32 a, u32 b) { return a > b ? a - b : b - a; }); });
  differences.refused = "vabsdiff4";
  all.push_back(differences);
  return all;
}

}  // namespace stepfuse::vgpu::corpus
