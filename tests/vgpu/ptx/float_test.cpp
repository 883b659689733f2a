// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/test_instruction.h"

#include <bit>
#include <cmath>
#include <random>

// Expected values: IEEE 754 by hand. Names of bit patterns of single precision:
namespace stepfuse::vgpu {
namespace {

constexpr uint64_t kOne = 0x3f800000, kTwo = 0x40000000, kInf = 0x7f800000, kMinusZero = 0x80000000, kNan = 0x7fffffff;
constexpr uint64_t kAnyNan = 0x7fc12345, kLeast = 1, kSmallestNormal = 0x00800000, kUlp = 0x34000000;  // 2^-23

uint64_t bits(float v) { return std::bit_cast<uint32_t>(v); }
uint64_t bits(double v) { return std::bit_cast<uint64_t>(v); }

TEST(Float, Rounding) {
  // 1 + 2^-24 lies halfway between 1 and its successor.
  const uint64_t half_ulp = 0x33800000;
  for (const auto& [mode, expected] : {std::pair("rn", kOne), {"rz", kOne}, {"rm", kOne}, {"rp", kOne + 1}}) {
    expect_cases(std::string("add.") + mode + ".f32 %d, %a, %b;", all_of("f32"), {{kOne, half_ulp, 0, expected}});
  }
  expect_cases("sub.rm.f32 %d, %a, %b;", all_of("f32"), {{kOne, kOne, 0, kMinusZero}});
  expect_cases("sub.f32 %d, %a, %b;", all_of("f32"), {{kOne, kOne, 0, 0}});
  expect_cases("div.rz.f32 %d, %a, %b;", all_of("f32"), {{kTwo, 0x40400000, 0, 0x3f2aaaaa}});  // 2/3
  expect_cases("div.rn.f32 %d, %a, %b;", all_of("f32"),
               {{kTwo, 0x40400000, 0, 0x3f2aaaab}, {kOne, 0, 0, kInf}, {0, 0, 0, kNan}});
  expect_cases("sqrt.rp.f32 %d, %a;", all_of("f32"), {{kTwo, 0, 0, 0x3fb504f4}});
  expect_cases("sqrt.rn.f32 %d, %a;", all_of("f32"),
               {{kTwo, 0, 0, 0x3fb504f3}, {bits(-1.0F), 0, 0, kNan}, {kMinusZero, 0, 0, kMinusZero}});
  expect_cases("rcp.rn.f32 %d, %a;", all_of("f32"), {{0x40400000, 0, 0, 0x3eaaaaab}});
  expect_cases("rcp.rz.f32 %d, %a;", all_of("f32"), {{0x40400000, 0, 0, 0x3eaaaaaa}});
  expect_cases("mul.rz.f32 %d, %a, %b;", all_of("f32"), {{0x7f7fffff, kTwo, 0, 0x7f7fffff}});
  expect_cases("mul.rn.f32 %d, %a, %b;", all_of("f32"), {{0x7f7fffff, kTwo, 0, kInf}});
}

TEST(Float, FmaRoundsOnce) {
  // (1 + 2^-23)^2 - (1 + 2^-22) = 2^-46, which two roundings lose.
  expect_cases("fma.rn.f32 %d, %a, %b, %c;", all_of("f32"),
               {{kOne + 1, kOne + 1, bits(-(1.0F + 0x1p-22F)), bits(0x1p-46F)}});
  expect_cases("mad.rn.f32 %d, %a, %b, %c;", all_of("f32"),
               {{kOne + 1, kOne + 1, bits(-(1.0F + 0x1p-22F)), bits(0x1p-46F)}});
  expect_cases("fma.rp.f32 %d, %a, %b, %c;", all_of("f32"), {{kOne + 1, kOne + 1, kOne, bits(2.0F + 0x1p-21F)}});
  expect_cases("fma.rn.f64 %d, %a, %b, %c;", all_of("f64"),
               {{bits(1 + 0x1p-52), bits(1 + 0x1p-52), bits(-(1 + 0x1p-51)), bits(0x1p-104)}});
  expect_cases("fma.rm.f64 %d, %a, %b, %c;", all_of("f64"), {{bits(1.0), bits(0x1p-60), bits(1.0), bits(1.0)}});
  expect_cases("fma.rp.f64 %d, %a, %b, %c;", all_of("f64"), {{bits(1.0), bits(0x1p-60), bits(1.0), bits(1 + 0x1p-52)}});
}

TEST(Float, SubnormalsStayUnlessFlushed) {
  expect_cases("add.f32 %d, %a, %b;", all_of("f32"),
               {{kLeast, kLeast, 0, 2}, {kSmallestNormal, 0x80000001, 0, 0x007fffff}});
  expect_cases("add.ftz.f32 %d, %a, %b;", all_of("f32"),
               {{kLeast, kLeast, 0, 0},
                {kSmallestNormal, 0x80000001, 0, kSmallestNormal},
                {0x80000001, 0x80000001, 0, kMinusZero}});
  expect_cases("mul.ftz.f32 %d, %a, %b;", all_of("f32"), {{kSmallestNormal, 0xbf000000, 0, kMinusZero}});
  expect_cases("mul.f32 %d, %a, %b;", all_of("f32"), {{kSmallestNormal, 0xbf000000, 0, 0x80400000}});
  expect_cases("setp.eq.ftz.f32 %p, %a, %b;", {"pred", "f32", "f32"}, {{kLeast, 0, 0, 1}});
  expect_cases("setp.eq.f32 %p, %a, %b;", {"pred", "f32", "f32"}, {{kLeast, 0, 0, 0}});
}

TEST(Float, NansAreCanonicalAndSaturationIsInZeroToOne) {
  expect_cases("add.f32 %d, %a, %b;", all_of("f32"), {{kAnyNan, kOne, 0, kNan}, {kInf, 0xff800000, 0, kNan}});
  expect_cases("add.sat.f32 %d, %a, %b;", all_of("f32"),
               {{kAnyNan, kOne, 0, 0}, {kOne, kOne, 0, kOne}, {bits(-3.0F), kOne, 0, 0}});
  expect_cases("fma.rn.sat.f32 %d, %a, %b, %c;", all_of("f32"), {{kOne, 0x3f000000, 0, 0x3f000000}});
  expect_cases("neg.f32 %d, %a;", all_of("f32"), {{0, 0, 0, kMinusZero}});
  expect_cases("abs.f32 %d, %a;", all_of("f32"), {{kMinusZero, 0, 0, 0}});
  expect_cases("copysign.f32 %d, %a, %b;", all_of("f32"), {{kMinusZero, kOne, 0, bits(-1.0F)}});
}

TEST(Float, MinimumAndMaximum) {
  expect_cases("min.f32 %d, %a, %b;", all_of("f32"),
               {{0, kMinusZero, 0, kMinusZero},
                {kMinusZero, 0, 0, kMinusZero},
                {kAnyNan, kOne, 0, kOne},
                {kAnyNan, kAnyNan, 0, kNan}});
  expect_cases("max.f32 %d, %a, %b;", all_of("f32"),
               {{0, kMinusZero, 0, 0}, {kOne, kTwo, 0, kTwo}, {kOne, kAnyNan, 0, kOne}});
  expect_cases("max.NaN.f32 %d, %a, %b;", all_of("f32"), {{kOne, kAnyNan, 0, kNan}});
  // The sign is the product's sign, the magnitude the larger one.
  expect_cases("max.xorsign.abs.f32 %d, %a, %b;", all_of("f32"),
               {{bits(-3.0F), kTwo, 0, bits(-3.0F)}, {bits(-3.0F), bits(-4.0F), 0, bits(4.0F)}});
  expect_cases("min.f64 %d, %a, %b;", all_of("f64"), {{bits(-1.0), bits(2.0), 0, bits(-1.0)}});
  expect_cases("max.f32 %d, %a, %b, %c;", all_of("f32"), {{kOne, kTwo, bits(3.0F), bits(3.0F)}});
}

TEST(Float, Comparisons) {
  const Signature pred{"pred", "f32", "f32"};
  struct Row {
    const char* name;
    int less, equal, greater, unordered;
  };
  const Row rows[] = {{"eq", 0, 1, 0, 0},  {"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},  {"le", 1, 1, 0, 0},
                      {"gt", 0, 0, 1, 0},  {"ge", 0, 1, 1, 0},  {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1},
                      {"ltu", 1, 0, 0, 1}, {"leu", 1, 1, 0, 1}, {"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1},
                      {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1}};
  for (const Row& row : rows) {
    const auto u = [](int v) { return static_cast<uint64_t>(v); };
    expect_cases(std::string("setp.") + row.name + ".f32 %p, %a, %b;", pred,
                 {{kOne, kTwo, 0, u(row.less)},
                  {0, kMinusZero, 0, u(row.equal)},
                  {kTwo, kOne, 0, u(row.greater)},
                  {kAnyNan, kOne, 0, u(row.unordered)}});
  }
  expect_cases("testp.subnormal.f32 %p, %a;", pred, {{kLeast, 0, 0, 1}, {kOne, 0, 0, 0}});
  expect_cases("testp.notanumber.f32 %p, %a;", pred, {{kAnyNan, 0, 0, 1}, {kInf, 0, 0, 0}});
  expect_cases("testp.infinite.f64 %p, %a;", {"pred", "f64"}, {{bits(-INFINITY * 1.0), 0, 0, 1}});
}

TEST(Float, RandomOperandsEqualTheProcessor) {
  std::mt19937_64 random(3);
  std::vector<Case> sums, quotients, products;
  for (int i = 0; i < 500; ++i) {
    const auto a = static_cast<uint32_t>(random());
    const auto b = static_cast<uint32_t>(random());
    const auto x = std::bit_cast<float>(a);
    const auto y = std::bit_cast<float>(b);
    const auto expected = [](float v) { return std::isnan(v) ? kNan : bits(v); };
    sums.push_back({a, b, 0, expected(x + y)});
    quotients.push_back({a, b, 0, expected(x / y)});
    products.push_back({a, b, a, expected(std::fma(x, y, x))});
  }
  expect_cases("add.f32 %d, %a, %b;", all_of("f32"), sums);
  expect_cases("div.rn.f32 %d, %a, %b;", all_of("f32"), quotients);
  expect_cases("fma.rn.f32 %d, %a, %b, %c;", all_of("f32"), products);
}

TEST(Float, ApproximationsAreWithinTheirBounds) {
  expect_cases("rsqrt.approx.f32 %d, %a;", all_of("f32"),
               {{bits(4.0F), 0, 0, bits(0.5F)}, {0, 0, 0, kInf}, {bits(-1.0F), 0, 0, kNan}});
  expect_cases("ex2.approx.f32 %d, %a;", all_of("f32"), {{bits(3.0F), 0, 0, bits(8.0F)}, {0xff800000, 0, 0, 0}});
  expect_cases("lg2.approx.f32 %d, %a;", all_of("f32"), {{bits(8.0F), 0, 0, bits(3.0F)}, {0, 0, 0, 0xff800000}});
  expect_cases("sin.approx.f32 %d, %a;", all_of("f32"), {{0, 0, 0, 0}, {kInf, 0, 0, kNan}});
  expect_cases("div.full.f32 %d, %a, %b;", all_of("f32"), {{kOne, bits(4.0F), 0, bits(0.25F)}});
  expect_cases("rcp.approx.ftz.f64 %d, %a;", all_of("f64"), {{bits(4.0), 0, 0, bits(0.25)}});
  static_cast<void>(kUlp);
}

TEST(Float, IllegalFormsAreRefused) {
  EXPECT_NE(refused_instruction("fma.f32 %d, %a, %b, %c;", all_of("f32")).find("no rounding"), std::string::npos);
  EXPECT_NE(refused_instruction("add.ftz.f64 %d, %a, %b;", all_of("f64")), "");
  EXPECT_NE(refused_instruction("add.f32 %d, %a, 1;", all_of("f32")).find("an integer as floating-point operand"),
            std::string::npos);
  EXPECT_NE(refused_instruction("div.f64 %d, %a, %b;", all_of("f64")), "");
  EXPECT_NE(refused_instruction("sin.f32 %d, %a;", all_of("f32")), "");
}

}  // namespace
}  // namespace stepfuse::vgpu
