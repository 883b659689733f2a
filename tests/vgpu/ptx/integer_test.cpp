// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/test_instruction.h"

#include <random>

// Expected values: two's complement arithmetic by hand, or the processor's own on random operands.
namespace stepfuse::vgpu {
namespace {

std::vector<Case> random_cases(uint64_t (*expected)(uint64_t, uint64_t, uint64_t), uint64_t mask) {
  std::mt19937_64 random(7);
  std::vector<Case> cases;
  for (int i = 0; i < 200; ++i) {
    Case one{random() & mask, random() & mask, random() & mask, 0};
    if (i % 5 == 0) one.b = random() & 15;
    if (one.b == 0) one.b = 3;
    one.expected = expected(one.a, one.b, one.c) & mask;
    cases.push_back(one);
  }
  return cases;
}

constexpr uint64_t k32 = 0xffffffff;
constexpr uint64_t k64 = ~uint64_t{0};

int32_t s32(uint64_t v) { return static_cast<int32_t>(v); }
int64_t s64(uint64_t v) { return static_cast<int64_t>(v); }
uint64_t u64(int64_t v) { return static_cast<uint64_t>(v); }

TEST(Integer, RandomOperands) {
  expect_cases("add.s32 %d, %a, %b;", all_of("s32"), random_cases([](auto a, auto b, auto) { return a + b; }, k32));
  expect_cases("sub.u64 %d, %a, %b;", all_of("u64"), random_cases([](auto a, auto b, auto) { return a - b; }, k64));
  expect_cases("mad.lo.s32 %d, %a, %b, %c;", all_of("s32"),
               random_cases([](auto a, auto b, auto c) { return a * b + c; }, k32));
  expect_cases("mul.hi.u32 %d, %a, %b;", all_of("u32"),
               random_cases([](auto a, auto b, auto) { return a * b >> 32; }, k32));
  expect_cases("mul.hi.s32 %d, %a, %b;", all_of("s32"),
               random_cases([](auto a, auto b, auto) { return u64(int64_t{s32(a)} * s32(b) >> 32); }, k32));
  expect_cases(
      "mul.hi.s64 %d, %a, %b;", all_of("s64"),
      random_cases([](auto a, auto b, auto) { return static_cast<uint64_t>(__int128{s64(a)} * s64(b) >> 64); }, k64));
  expect_cases("div.s32 %d, %a, %b;", all_of("s32"),
               random_cases([](auto a, auto b, auto) { return u64(s32(a) / s32(b)); }, k32));
  expect_cases("rem.s64 %d, %a, %b;", all_of("s64"),
               random_cases([](auto a, auto b, auto) { return u64(s64(a) % s64(b)); }, k64));
  expect_cases("rem.u32 %d, %a, %b;", all_of("u32"), random_cases([](auto a, auto b, auto) { return a % b; }, k32));
  expect_cases("xor.b64 %d, %a, %b;", all_of("b64"), random_cases([](auto a, auto b, auto) { return a ^ b; }, k64));
  // 0x96 is the table of a three-way exclusive or.
  expect_cases("lop3.b32 %d, %a, %b, %c, 0x96;", all_of("b32"),
               random_cases([](auto a, auto b, auto c) { return a ^ b ^ c; }, k32));
  expect_cases("lop3.b32 %d, %a, %b, %c, 0xCA;", all_of("b32"),
               random_cases([](auto a, auto b, auto c) { return (a & b) | (~a & c); }, k32));
}

TEST(Integer, Wide) {
  const Signature wide{"s64", "s32", "s32", "s64"};
  expect_cases("mul.wide.s32 %d, %a, %b;", wide,
               {{0xffffffff, 5, 0, u64(-5)}, {0x80000000, 0x80000000, 0, uint64_t{1} << 62}});
  expect_cases("mad.wide.s32 %d, %a, %b, %c;", wide, {{0xfffffffe, 3, 10, 4}});
  expect_cases("mul.wide.u32 %d, %a, %b;", {"u64", "u32", "u32", "u64"},
               {{0xffffffff, 0xffffffff, 0, 0xfffffffe00000001}});
  expect_cases("mul.wide.u16 %d, %a, %b;", {"u32", "u16", "u16"}, {{0xffff, 0xffff, 0, 0xfffe0001}});
}

TEST(Integer, SaturatesAndBounds) {
  expect_cases("add.sat.s32 %d, %a, %b;", all_of("s32"),
               {{0x7fffffff, 1, 0, 0x7fffffff}, {0x80000000, 0xffffffff, 0, 0x80000000}});
  expect_cases("min.s32 %d, %a, %b;", all_of("s32"), {{0xffffffff, 1, 0, 0xffffffff}});
  expect_cases("min.u32 %d, %a, %b;", all_of("u32"), {{0xffffffff, 1, 0, 1}});
  expect_cases("max.s16 %d, %a, %b;", all_of("s16"), {{0xffff, 1, 0, 1}});
  expect_cases("max.relu.s32 %d, %a, %b;", all_of("s32"), {{0xffffffff, 0xfffffff0, 0, 0}, {5, 3, 0, 5}});
  expect_cases("abs.s32 %d, %a;", all_of("s32"), {{0xfffffff0, 0, 0, 16}, {0x80000000, 0, 0, 0x80000000}});
  expect_cases("neg.s64 %d, %a;", all_of("s64"), {{1, 0, 0, k64}});
  expect_cases("sad.s32 %d, %a, %b, %c;", all_of("s32"), {{0xffffffff, 4, 100, 105}});
  expect_cases("div.s32 %d, %a, %b;", all_of("s32"), {{0x80000000, 0xffffffff, 0, 0x80000000}});
}

TEST(Integer, CarryChains) {
  // 128-bit sums and differences from 32-bit parts: 0xffffffff_ffffffff + 1, and 0 - 1.
  expect_cases(
      "{ .reg .b32 %l, %h; .reg .b32 %x, %y; mov.b64 {%x, %y}, %a; add.cc.u32 %l, %x, 1; addc.u32 %h, %y, 0;\n"
      "mov.b64 %d, {%l, %h}; }",
      all_of("b64"), {{0x00000001ffffffff, 0, 0, 0x0000000200000000}, {5, 0, 0, 6}});
  expect_cases(
      "{ .reg .b32 %l, %h; .reg .b32 %x, %y; mov.b64 {%x, %y}, %a; sub.cc.u32 %l, %x, 1; subc.u32 %h, %y, 0;\n"
      "mov.b64 %d, {%l, %h}; }",
      all_of("b64"), {{0x0000000100000000, 0, 0, 0x00000000ffffffff}, {0, 0, 0, k64}});
  expect_cases(
      "{ .reg .b32 %l, %h; .reg .b32 %x, %y; mov.b64 {%x, %y}, %a; mad.lo.cc.u32 %l, %x, 2, 3;\n"
      "madc.hi.u32 %h, %x, 2, %y; mov.b64 %d, {%l, %h}; }",
      all_of("b64"), {{0x00000007ffffffff, 0, 0, 0x0000000900000001}});
}

TEST(Integer, Shifts) {
  const Signature shift{"b32", "b32", "u32"};
  expect_cases("shl.b32 %d, %a, %b;", shift, {{1, 31, 0, 0x80000000}, {1, 32, 0, 0}, {1, 0xffffffff, 0, 0}});
  expect_cases("shr.u32 %d, %a, %b;", shift, {{0x80000000, 31, 0, 1}, {0x80000000, 40, 0, 0}});
  expect_cases("shr.s32 %d, %a, %b;", shift,
               {{0x80000000, 31, 0, 0xffffffff}, {0x80000000, 40, 0, 0xffffffff}, {0x40000000, 99, 0, 0}});
  expect_cases("shr.s64 %d, %a, %b;", {"s64", "s64", "u32"}, {{uint64_t{1} << 63, 63, 0, k64}, {8, 3, 0, 1}});
  expect_cases("shf.l.wrap.b32 %d, %a, %b, %c;", all_of("b32"), {{0x80000000, 1, 1, 3}, {0x80000000, 1, 33, 3}});
  expect_cases("shf.r.wrap.b32 %d, %a, %b, %c;", all_of("b32"), {{0x80000000, 1, 1, 0xc0000000}});
  expect_cases("shf.l.clamp.b32 %d, %a, %b, %c;", all_of("b32"), {{0x12345678, 1, 77, 0x12345678}});
  expect_cases("shf.r.clamp.b32 %d, %a, %b, %c;", all_of("b32"), {{5, 0x12345678, 77, 0x12345678}});
}

TEST(Integer, Fields) {
  expect_cases("bfe.u32 %d, %a, %b, %c;", all_of("b32"),
               {{0xabcd1234, 8, 8, 0x12}, {0xabcd1234, 28, 8, 0xa}, {0xabcd1234, 0, 0, 0}});
  expect_cases("bfe.s32 %d, %a, %b, %c;", all_of("b32"),
               {{0x0000f000, 12, 4, 0xffffffff}, {0xf0000000, 28, 9, 0xffffffff}, {0x7000, 12, 4, 7}});
  expect_cases("bfi.b32 %d, %a, %b, 8, %c;", all_of("b32"),
               {{0xff, 0, 4, 0xf00}, {0, 0xffffffff, 4, 0xfffff0ff}, {0, 7, 0, 7}});
  expect_cases("bfind.u32 %d, %a;", all_of("u32"), {{0x00010000, 0, 0, 16}, {0, 0, 0, 0xffffffff}});
  expect_cases("bfind.s32 %d, %a;", all_of("s32"), {{0xffffffff, 0, 0, 0xffffffff}, {0xfffffeff, 0, 0, 8}});
  expect_cases("bfind.shiftamt.u32 %d, %a;", all_of("u32"), {{0x00010000, 0, 0, 15}});
  expect_cases("brev.b32 %d, %a;", all_of("b32"), {{0x1, 0, 0, 0x80000000}, {0x12345678, 0, 0, 0x1e6a2c48}});
  expect_cases("clz.b64 %d, %a;", {"b32", "b64"}, {{1, 0, 0, 63}, {0, 0, 0, 64}});
  expect_cases("popc.b32 %d, %a;", all_of("b32"), {{0xf0f0, 0, 0, 8}});
  expect_cases("fns.b32 %d, %a, %b, %c;", all_of("b32"),
               {{0xaaaaaaaa, 3, 1, 3}, {0xaaaaaaaa, 3, 0xffffffff, 3}, {0xaaaaaaaa, 3, 2, 5}, {0x1, 3, 1, 0xffffffff}});
  expect_cases("bmsk.clamp.b32 %d, %a, %b;", all_of("b32"), {{4, 8, 0, 0xff0}, {30, 8, 0, 0xc0000000}});
}

TEST(Integer, Bytes) {
  expect_cases("prmt.b32 %d, %a, %b, %c;", all_of("b32"),
               {{0x33221100, 0x77665544, 0x7531, 0x77553311},
                {0x33221100, 0x77665544, 0x0123, 0x00112233},
                {0x000000f0, 0, 0x0008, 0xf0f0f0ff}});
  expect_cases("prmt.b32.f4e %d, %a, %b, %c;", all_of("b32"), {{0x33221100, 0x77665544, 1, 0x44332211}});
  expect_cases("prmt.b32.b4e %d, %a, %b, %c;", all_of("b32"), {{0x33221100, 0x77665544, 1, 0x66770011}});
  expect_cases("dp4a.s32.s32 %d, %a, %b, %c;", all_of("b32"), {{0xff020304, 0x01010101, 10, 18}});
  expect_cases("dp4a.u32.u32 %d, %a, %b, %c;", all_of("b32"), {{0xff020304, 0x01010101, 10, 274}});
  expect_cases("dp2a.lo.s32.s32 %d, %a, %b, %c;", all_of("b32"), {{0xffff0002, 0x04030201, 0, 0}});
  expect_cases("dp2a.hi.s32.s32 %d, %a, %b, %c;", all_of("b32"), {{0xffff0002, 0x04030201, 0, 2}});
  expect_cases("add.u16x2 %d, %a, %b;", all_of("b32"), {{0x0001ffff, 0x00010001, 0, 0x00020000}});
}

TEST(Integer, ComparesAndSelects) {
  const Signature pred{"pred", "b32", "b32"};
  expect_cases("setp.lt.s32 %p, %a, %b;", pred, {{0xffffffff, 1, 0, 1}, {1, 1, 0, 0}});
  expect_cases("setp.lo.u32 %p, %a, %b;", pred, {{0xffffffff, 1, 0, 0}, {0, 1, 0, 1}});
  expect_cases("setp.hs.u32 %p, %a, %b;", pred, {{1, 1, 0, 1}});
  expect_cases("setp.ne.b32 %q, %c, 0; setp.eq.and.s32 %p, %a, %b, !%q;", pred,
               {{3, 3, 0, 1}, {3, 3, 1, 0}, {3, 4, 0, 0}});
  // The second predicate is the opposite comparison, joined the same way.
  expect_cases("setp.ne.b32 %q, %c, 0; setp.lt.xor.s32 %q|%p, %a, %b, %q;", pred,
               {{1, 2, 0, 0}, {1, 2, 1, 1}, {2, 1, 0, 1}});
  expect_cases("set.gt.u32.s32 %d, %a, %b;", all_of("b32"), {{2, 1, 0, 0xffffffff}, {1, 2, 0, 0}});
  expect_cases("set.gt.f32.s32 %d, %a, %b;", all_of("b32"), {{2, 1, 0, 0x3f800000}});
  expect_cases("slct.s32.s32 %d, %a, %b, %c;", all_of("b32"), {{5, 6, 0, 5}, {5, 6, 0xffffffff, 6}});
  expect_cases("slct.b32.f32 %d, %a, %b, %c;", all_of("b32"), {{5, 6, 0x80000000, 5}, {5, 6, 0x7fc00000, 6}});
}

TEST(Integer, IllegalFormsAreRefused) {
  EXPECT_NE(refused_instruction("setp.lt.b32 %p, %a, %b;", {"pred", "b32"}).find("bits have no order"),
            std::string::npos);
  EXPECT_NE(refused_instruction("setp.lo.s32 %p, %a, %b;", {"pred", "b32"}), "");
  EXPECT_NE(refused_instruction("mul.s32 %d, %a, %b;", all_of("s32")), "");
  EXPECT_NE(refused_instruction("add.ftz.s32 %d, %a, %b;", all_of("s32")).find("unknown or illegal here: .ftz"),
            std::string::npos);
  EXPECT_NE(refused_instruction("add.s32 %d, %a;", all_of("s32")), "");
  EXPECT_NE(refused_instruction("add.s64 %d, %a, %b;", all_of("s32")), "");
  EXPECT_NE(refused_instruction("shl.s32 %d, %a, %b;", all_of("s32")), "");
  EXPECT_NE(refused_instruction("frobnicate.s32 %d, %a;", all_of("s32")).find("unknown instruction"),
            std::string::npos);
}

}  // namespace
}  // namespace stepfuse::vgpu
