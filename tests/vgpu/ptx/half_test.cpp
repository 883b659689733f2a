// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/test_instruction.h"

#include <bit>
#include <cmath>

// Expected values: IEEE 754 binary16 and bfloat16 by hand.
namespace stepfuse::vgpu {
namespace {

uint64_t bits(float v) { return std::bit_cast<uint32_t>(v); }
uint64_t bits(double v) { return std::bit_cast<uint64_t>(v); }

TEST(Half, Arithmetic) {
  // 0x3c00 is 1, 0x4000 is 2, 0x7bff is 65504, 0x7c00 infinity, 0x0001 2^-24, 0x1000 2^-11.
  expect_cases("add.f16 %d, %a, %b;", all_of("f16"),
               {{0x3c00, 0x3c00, 0, 0x4000},
                {0x3c00, 0x1000, 0, 0x3c00},
                {0x3c01, 0x1000, 0, 0x3c02},
                {0x7bff, 0x7bff, 0, 0x7c00},
                {0x7c00, 0xfc00, 0, 0x7fff}});
  expect_cases("mul.f16 %d, %a, %b;", all_of("f16"), {{0x0001, 0x3800, 0, 0}, {0x0003, 0x3800, 0, 2}});
  expect_cases("mul.ftz.f16 %d, %a, %b;", all_of("f16"), {{0x0003, 0x4000, 0, 0}});
  // (1 + 2^-10)(1 + 2^-9) - 1 = 1.5 * 2^-9 + 2^-19: one rounding keeps the tail.
  expect_cases("fma.rn.f16 %d, %a, %b, %c;", all_of("f16"), {{0x3c01, 0x3c02, 0xbc00, 0x1a01}});
  expect_cases("fma.rn.relu.f16 %d, %a, %b, %c;", all_of("f16"), {{0x3c00, 0xbc00, 0, 0}});
  expect_cases("sub.sat.f16 %d, %a, %b;", all_of("f16"), {{0x3c00, 0x4000, 0, 0}, {0x4400, 0x3c00, 0, 0x3c00}});
  expect_cases("fma.rn.f16x2 %d, %a, %b, %c;", all_of("f16x2"), {{0x3c004000, 0x40003c00, 0x3c003c00, 0x42004200}});
  expect_cases("neg.f16 %d, %a;", all_of("f16"), {{0x3c00, 0, 0, 0xbc00}});
}

TEST(Half, FmaOfBfloatsRoundsOnce) {
  // (1 + 2^-7)(1 + 2^-6) - 1 = 1.5 * 2^-6 + 2^-13.
  expect_cases("fma.rn.bf16 %d, %a, %b, %c;", all_of("bf16"), {{0x3f81, 0x3f82, 0xbf80, 0x3cc1}});
  // 9 * 29 = 261 lies halfway between 260 and 262; 2^-100 more or less decides, and a double would lose it.
  expect_cases("fma.rn.bf16 %d, %a, %b, %c;", all_of("bf16"),
               {{0x4110, 0x41e8, 0, 0x4382}, {0x4110, 0x41e8, 0x0d80, 0x4383}, {0x4110, 0x41e8, 0x8d80, 0x4382}});
  expect_cases("add.bf16 %d, %a, %b;", all_of("bf16"), {{0x3f80, 0x3b80, 0, 0x3f80}, {0x3f81, 0x3b80, 0, 0x3f82}});
  expect_cases("mul.bf16x2 %d, %a, %b;", all_of("bf16x2"), {{0x3f804000, 0x40004000, 0, 0x40004080}});
}

TEST(Half, MinimumMaximumCompare) {
  expect_cases("min.f16 %d, %a, %b;", all_of("f16"), {{0x7e01, 0x3c00, 0, 0x3c00}, {0, 0x8000, 0, 0x8000}});
  expect_cases("max.NaN.bf16 %d, %a, %b;", all_of("bf16"), {{0x7fc1, 0x3f80, 0, 0x7fff}});
  expect_cases("max.f16x2 %d, %a, %b;", all_of("f16x2"), {{0x3c004000, 0x40003c00, 0, 0x40004000}});
  expect_cases("setp.lt.f16 %p, %a, %b;", {"pred", "f16", "f16"}, {{0x3c00, 0x4000, 0, 1}, {0x7e00, 0x4000, 0, 0}});
  expect_cases("setp.gt.f16x2 %q|%p, %a, %b;", {"pred", "f16x2", "f16x2"},
               {{0x40003c00, 0x3c003c00, 0, 1}, {0x3c004000, 0x3c003c00, 0, 0}});
  expect_cases("set.eq.f16.f16 %d, %a, %b;", all_of("f16"), {{0x3c00, 0x3c00, 0, 0x3c00}, {0x3c00, 0x4000, 0, 0}});
}

TEST(Half, NeedsItsArchitecture) {
  EXPECT_NE(refused_instruction("add.bf16 %d, %a, %b;", all_of("bf16"), 80).find("sm_90"), std::string::npos);
  EXPECT_EQ(refused_instruction("fma.rn.bf16 %d, %a, %b, %c;", all_of("bf16"), 80), "");
  EXPECT_NE(refused_instruction("fma.f16 %d, %a, %b, %c;", all_of("f16")), "");
}

TEST(Convert, FloatToFloat) {
  const Signature narrow{"bf16", "f32"};
  // Ties to even around 1: 0x3f808000 is halfway to 0x3f81, 0x3f818000 halfway to 0x3f82.
  expect_cases("cvt.rn.bf16.f32 %d, %a;", narrow,
               {{0x3f808000, 0, 0, 0x3f80},
                {0x3f818000, 0, 0, 0x3f82},
                {0x3f808001, 0, 0, 0x3f81},
                {0x7f7fffff, 0, 0, 0x7f80},
                {0x7fc12345, 0, 0, 0x7fff},
                {0x00008000, 0, 0, 0},
                {0x00018000, 0, 0, 2}});
  expect_cases("cvt.rz.bf16.f32 %d, %a;", narrow, {{0x3f80ffff, 0, 0, 0x3f80}, {0x7f7fffff, 0, 0, 0x7f7f}});
  expect_cases("cvt.rn.relu.bf16.f32 %d, %a;", narrow,
               {{bits(-1.0F), 0, 0, 0}, {bits(1.0F), 0, 0, 0x3f80}, {0x7fc00000, 0, 0, 0x7fff}});
  expect_cases("cvt.rn.f16.f32 %d, %a;", {"f16", "f32"},
               {{bits(65519.0F), 0, 0, 0x7bff},
                {bits(65520.0F), 0, 0, 0x7c00},
                {bits(0x1p-25F), 0, 0, 0},
                {bits(0x1.8p-25F), 0, 0, 1}});
  expect_cases("cvt.rm.f16.f32 %d, %a;", {"f16", "f32"}, {{bits(-1.0001F), 0, 0, 0xbc01}, {bits(1e9F), 0, 0, 0x7bff}});
  expect_cases("cvt.f32.f16 %d, %a;", {"f32", "f16"},
               {{0x0001, 0, 0, bits(0x1p-24F)}, {0xfc00, 0, 0, 0xff800000}, {0x7e00, 0, 0, 0x7fffffff}});
  expect_cases("cvt.f32.bf16 %d, %a;", {"f32", "bf16"}, {{0x3f81, 0, 0, 0x3f810000}});
  expect_cases("cvt.rn.f32.f64 %d, %a;", {"f32", "f64"},
               {{bits(1 + 0x1p-24), 0, 0, bits(1.0F)}, {bits(0x1p-149), 0, 0, 1}, {bits(1e300), 0, 0, 0x7f800000}});
  expect_cases("cvt.rp.f32.f64 %d, %a;", {"f32", "f64"}, {{bits(1 + 0x1p-40), 0, 0, 0x3f800001}});
  expect_cases("cvt.rn.ftz.f32.f64 %d, %a;", {"f32", "f64"}, {{bits(-0x1p-149), 0, 0, 0x80000000}});
  expect_cases("cvt.f64.f32 %d, %a;", {"f64", "f32"}, {{1, 0, 0, bits(0x1p-149)}});
  expect_cases("cvt.sat.f32.f32 %d, %a;", all_of("f32"), {{bits(3.0F), 0, 0, bits(1.0F)}, {0x7fc00000, 0, 0, 0}});
  expect_cases("cvt.rni.f32.f32 %d, %a;", all_of("f32"),
               {{bits(2.5F), 0, 0, bits(2.0F)}, {bits(-0.5F), 0, 0, 0x80000000}});
  expect_cases("cvt.rpi.f64.f64 %d, %a;", all_of("f64"), {{bits(2.1), 0, 0, bits(3.0)}});
  expect_cases("cvt.rna.tf32.f32 %d, %a;", {"b32", "f32"}, {{0x3f801000, 0, 0, 0x3f802000}});
}

TEST(Convert, Pairs) {
  const Signature pair{"bf16x2", "f32", "f32"};
  expect_cases("cvt.rn.bf16x2.f32 %d, %a, %b;", pair, {{bits(1.0F), bits(2.0F), 0, 0x3f804000}});
  expect_cases("cvt.rn.f16x2.f32 %d, %a, %b;", pair, {{bits(1.0F), bits(2.0F), 0, 0x3c004000}});
  expect_cases("cvt.rn.relu.f16x2.f32 %d, %a, %b;", pair, {{bits(-1.0F), bits(2.0F), 0, 0x00004000}});
}

TEST(Convert, FloatToInteger) {
  expect_cases("cvt.rzi.s32.f32 %d, %a;", {"s32", "f32"},
               {{bits(-1.9F), 0, 0, 0xffffffff},
                {bits(3e9F), 0, 0, 0x7fffffff},
                {bits(-3e9F), 0, 0, 0x80000000},
                {0x7fc00000, 0, 0, 0}});
  expect_cases("cvt.rni.s32.f32 %d, %a;", {"s32", "f32"}, {{bits(2.5F), 0, 0, 2}, {bits(3.5F), 0, 0, 4}});
  expect_cases("cvt.rmi.s32.f32 %d, %a;", {"s32", "f32"}, {{bits(-1.1F), 0, 0, 0xfffffffe}});
  expect_cases("cvt.rpi.u32.f64 %d, %a;", {"u32", "f64"},
               {{bits(1.1), 0, 0, 2}, {bits(-5.0), 0, 0, 0}, {bits(5e9), 0, 0, 0xffffffff}});
  expect_cases("cvt.rzi.u64.f32 %d, %a;", {"u64", "f32"},
               {{bits(0x1p63F), 0, 0, uint64_t{1} << 63}, {0x7fc00000, 0, 0, uint64_t{1} << 63}});
  expect_cases("cvt.rzi.s64.f64 %d, %a;", {"s64", "f64"},
               {{bits(-0x1p53), 0, 0, static_cast<uint64_t>(-(int64_t{1} << 53))}});
  expect_cases("cvt.rzi.u8.f32 %d, %a;", {"u32", "f32"}, {{bits(300.0F), 0, 0, 255}});
}

TEST(Convert, IntegerToFloat) {
  expect_cases("cvt.rn.f32.s32 %d, %a;", {"f32", "s32"},
               {{0xffffffff, 0, 0, bits(-1.0F)}, {16777217, 0, 0, bits(16777216.0F)}});
  expect_cases("cvt.rp.f32.u32 %d, %a;", {"f32", "u32"}, {{16777217, 0, 0, bits(16777218.0F)}});
  expect_cases("cvt.rn.f32.u64 %d, %a;", {"f32", "u64"},
               {{~uint64_t{0}, 0, 0, bits(0x1p64F)}, {0x8000008000000001, 0, 0, 0x5f000001}});
  expect_cases("cvt.rn.f64.s64 %d, %a;", {"f64", "s64"}, {{~uint64_t{0}, 0, 0, bits(-1.0)}});
  expect_cases("cvt.rz.f64.u64 %d, %a;", {"f64", "u64"}, {{~uint64_t{0}, 0, 0, bits(0x1.fffffffffffffp63)}});
  expect_cases("cvt.rn.f16.s32 %d, %a;", {"f16", "s32"}, {{2049, 0, 0, 0x6800}, {70000, 0, 0, 0x7c00}});
}

TEST(Convert, IntegerToInteger) {
  expect_cases("cvt.s32.s8 %d, %a;", all_of("s32"), {{0x80, 0, 0, 0xffffff80}, {0x17f, 0, 0, 0x7f}});
  expect_cases("cvt.u32.u16 %d, %a;", {"u32", "u16"}, {{0xffff, 0, 0, 0xffff}});
  expect_cases("cvt.s64.s32 %d, %a;", {"s64", "s32"}, {{0x80000000, 0, 0, 0xffffffff80000000}});
  expect_cases("cvt.sat.s8.s32 %d, %a;", all_of("s32"), {{1000, 0, 0, 127}, {0xffffff00, 0, 0, 0xffffff80}});
  expect_cases("cvt.sat.u16.s32 %d, %a;", {"u16", "s32"}, {{0xffffffff, 0, 0, 0}, {70000, 0, 0, 0xffff}});
  expect_cases("cvt.pack.sat.s16.s32 %d, %a, %b;", all_of("b32"), {{70000, 0xffffffff, 0, 0x7fffffff}});
}

TEST(Convert, IllegalFormsAreRefused) {
  EXPECT_NE(refused_instruction("cvt.f32.s32 %d, %a;", {"f32", "s32"}), "");
  EXPECT_NE(refused_instruction("cvt.s32.f32 %d, %a;", {"s32", "f32"}), "");
  EXPECT_NE(refused_instruction("cvt.bf16.f32 %d, %a;", {"bf16", "f32"}), "");
  EXPECT_NE(refused_instruction("cvt.rn.bf16.f32 %d, %a;", {"bf16", "f32"}, 75).find("sm_80"), std::string::npos);
  EXPECT_NE(refused_instruction("cvt.rn.f64.f32 %d, %a;", {"f64", "f32"}), "");
}

}  // namespace
}  // namespace stepfuse::vgpu
