// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/test_instruction.h"

// Expected values: PTX ISA, the formulas of "shfl.sync", "vote.sync", "match.sync", "redux.sync".
namespace stepfuse::vgpu {
namespace {

std::vector<uint32_t> run(const std::string& body, uint32_t threads = 32, uint64_t seed = 0) {
  const std::string text =
      ptx_header() +
      ".visible .entry test(.param .u64 out)\n{\n.reg .pred %p<8>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<8>;\n"
      "ld.param.u64 %rd0, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, 4;\nadd.u64 %rd2, %rd0, %rd1;\n" +
      body + "\nst.global.u32 [%rd2], %r0;\nret;\n}\n";
  TestModule test(text);
  const uint64_t out = test.upload(std::vector<uint32_t>(threads));
  Launch launch;
  launch.block.x = threads;
  launch.seed = seed;
  test.run("test", launch, out);
  return test.download<uint32_t>(out, threads);
}

TEST(Warp, Shuffles) {
  const auto butterfly = run("shfl.sync.bfly.b32 %r0, %r1, 5, 31, -1;");
  const auto down = run("shfl.sync.down.b32 %r0|%p0, %r1, 3, 31, -1; @!%p0 mov.u32 %r0, 100;");
  const auto up = run("shfl.sync.up.b32 %r0|%p0, %r1, 3, 0, -1; @!%p0 mov.u32 %r0, 100;");
  // Segments of 8 lanes: the mask 0x18 in bits 8 to 12, the clamp 7.
  const auto index = run("shfl.sync.idx.b32 %r0, %r1, 2, 0x1807, -1;");
  const auto segment = run("shfl.sync.down.b32 %r0|%p0, %r1, 4, 0x1807, -1; @!%p0 mov.u32 %r0, 100;");
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(butterfly[i], i ^ 5);
    EXPECT_EQ(down[i], i + 3 < 32 ? i + 3 : 100);
    EXPECT_EQ(up[i], i >= 3 ? i - 3 : 100);
    EXPECT_EQ(index[i], i / 8 * 8 + 2);
    EXPECT_EQ(segment[i], i % 8 < 4 ? i + 4 : 100);
  }
}

TEST(Warp, LanesMeetFromDifferentPlaces) {
  // Even and odd lanes come to two different instructions with one member mask.
  const std::string body =
      "and.b32 %r2, %r1, 1; setp.eq.s32 %p0, %r2, 0; @%p0 bra $EVEN;\nadd.u32 %r3, %r1, 100;\n"
      "shfl.sync.bfly.b32 %r0, %r3, 1, 31, -1;\nbra $END;\n$EVEN:\nadd.u32 %r4, %r1, 200;\n"
      "shfl.sync.bfly.b32 %r0, %r4, 1, 31, -1;\n$END:";
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto result = run(body, 32, seed);
    for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(result[i], (i ^ 1) + (i % 2 == 0 ? 100 : 200));
  }
}

TEST(Warp, LanesWaitForThoseTheMaskNames) {
  // The upper half ends in a loop of its own before it meets the lower half.
  const std::string body =
      "setp.lt.u32 %p0, %r1, 16; @%p0 bra $MEET;\nmov.u32 %r3, 50;\n$L: sub.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; "
      "@%p1 bra $L;\n"
      "$MEET: mov.u32 %r4, 1;\nredux.sync.add.u32 %r0, %r4, 0xffffffff;";
  EXPECT_EQ(run(body), std::vector<uint32_t>(32, 32));
}

TEST(Warp, AnUnnamedLaneIsAFault) { EXPECT_THROW(run("shfl.sync.bfly.b32 %r0, %r1, 1, 31, 0xffff;"), KernelFault); }

TEST(Warp, VotesMatchesReductions) {
  EXPECT_EQ(run("setp.lt.u32 %p0, %r1, 8; vote.sync.ballot.b32 %r0, %p0, -1;")[5], 0xffU);
  EXPECT_EQ(run("setp.lt.u32 %p0, %r1, 8; vote.sync.ballot.b32 %r0, !%p0, -1;")[5], 0xffffff00U);
  EXPECT_EQ(run("setp.lt.u32 %p0, %r1, 8; vote.sync.any.pred %p1, %p0, -1; selp.u32 %r0, 1, 0, %p1;")[31], 1U);
  EXPECT_EQ(run("setp.lt.u32 %p0, %r1, 8; vote.sync.all.pred %p1, %p0, -1; selp.u32 %r0, 1, 0, %p1;")[31], 0U);
  EXPECT_EQ(run("setp.lt.u32 %p0, %r1, 32; vote.sync.uni.pred %p1, %p0, -1; selp.u32 %r0, 1, 0, %p1;")[31], 1U);
  EXPECT_EQ(run("and.b32 %r2, %r1, 3; match.any.sync.b32 %r0, %r2, -1;")[1], 0x22222222U);
  EXPECT_EQ(run("match.all.sync.b32 %r0|%p0, 7, -1;")[1], 0xffffffffU);
  EXPECT_EQ(run("match.all.sync.b32 %r0|%p0, %r1, -1;")[1], 0U);
  EXPECT_EQ(run("redux.sync.add.u32 %r0, %r1, -1;")[9], 496U);
  EXPECT_EQ(run("sub.s32 %r2, %r1, 5; redux.sync.min.s32 %r0, %r2, -1;")[9], 0xfffffffbU);
  EXPECT_EQ(run("redux.sync.or.b32 %r0, %r1, -1;")[9], 31U);
  EXPECT_EQ(run("activemask.b32 %r0;", 10)[3], 0x3ffU);
  EXPECT_EQ(run("mov.u32 %r0, 0; elect.sync %r2|%p0, -1; @%p0 mov.u32 %r0, 1;")[0], 1U);
}

TEST(Warp, SpecialRegisters) {
  const auto lanes = run("mov.u32 %r0, %laneid; mov.u32 %r2, %warpid; mad.lo.u32 %r0, %r2, 100, %r0;", 70);
  EXPECT_EQ(lanes[69], 205U);
  EXPECT_EQ(run("mov.u32 %r0, %lanemask_lt;")[4], 15U);
  EXPECT_EQ(run("mov.u32 %r0, %lanemask_ge;")[4], 0xfffffff0U);
  EXPECT_EQ(run("mov.u32 %r0, %lanemask_gt;")[31], 0U);
  EXPECT_EQ(run("mov.u32 %r0, %ntid.x;", 33)[0], 33U);
}

}  // namespace
}  // namespace stepfuse::vgpu
