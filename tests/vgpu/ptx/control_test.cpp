// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/test_instruction.h"

#include <numeric>

namespace stepfuse::vgpu {
namespace {

Launch launch_of(uint32_t blocks, uint32_t threads, uint64_t seed) {
  Launch launch;
  launch.grid.x = blocks;
  launch.block.x = threads;
  launch.seed = seed;
  return launch;
}

// A kernel that writes %r0 of each thread to out[thread].
std::string kernel(const std::string& body, const std::string& before = "") {
  return ptx_header() + before +
         ".visible .entry test(.param .u64 out)\n{\n.reg .pred %p<8>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<8>;\n"
         "ld.param.u64 %rd0, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, 4;\nadd.u64 %rd2, %rd0, %rd1;\n" +
         body + "\n$STORE:\nst.global.u32 [%rd2], %r0;\nret;\n}\n";
}

std::vector<uint32_t> run(const std::string& text, uint32_t threads, uint64_t seed = 0, MachineOptions options = {}) {
  TestModule test(text, options);
  const uint64_t out = test.upload(std::vector<uint32_t>(threads));
  test.run("test", launch_of(1, threads, seed), out);
  return test.download<uint32_t>(out, threads);
}

KernelFault::Kind fault_of(const std::string& text, uint32_t threads, MachineOptions options = {}) {
  try {
    run(text, threads, 0, options);
  } catch (const KernelFault& fault) {
    return fault.kind;
  }
  throw std::runtime_error("no fault");
}

TEST(Control, LoopsOfDifferentLength) {
  // r0 = 0 + 1 + ... + tid
  const auto result = run(kernel("mov.u32 %r0, 0; mov.u32 %r2, 0;\n$L: add.u32 %r0, %r0, %r2; add.u32 %r2, %r2, 1;\n"
                                 "setp.le.u32 %p0, %r2, %r1; @%p0 bra $L;"),
                          70);
  for (uint32_t i = 0; i < 70; ++i) EXPECT_EQ(result[i], i * (i + 1) / 2) << i;
}

TEST(Control, TablesOfBranches) {
  const auto result =
      run(kernel("and.b32 %r2, %r1, 3;\n$T: .branchtargets $A, $B, $A, $C;\nbrx.idx %r2, $T;\n"
                 "$A: mov.u32 %r0, 10; bra $STORE;\n$B: mov.u32 %r0, 20; bra $STORE;\n$C: mov.u32 %r0, 30;"),
          32);
  const uint32_t expected[] = {10, 20, 10, 30};
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(result[i], expected[i % 4]) << i;
}

const char* const kFunctions = R"(
.func (.param .b32 r) twice(.param .b32 x)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [x];
  shl.b32 %r2, %r1, 1;
  st.param.b32 [r], %r2;
  ret;
}
.func (.param .b32 r) twice_and_one(.param .b32 x)
{
  .reg .b32 %r<3>;
  .reg .pred %p;
  ld.param.b32 %r1, [x];
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }
  setp.lt.u32 %p, %r1, 5;
  @%p bra $SMALL;
  add.u32 %r2, %r2, 1;
$SMALL:
  st.param.b32 [r], %r2;
  ret;
}
)";

std::string call(const std::string& function) {
  return "{ .param .b32 a; .param .b32 b; st.param.b32 [a+0], %r1; call (b), " + function +
         ", (a); ld.param.b32 %r0, [b+0]; }";
}

TEST(Control, CallsFromDivergentLanes) {
  const auto text = kernel("and.b32 %r2, %r1, 1; setp.eq.s32 %p0, %r2, 0; @%p0 bra $EVEN;\n" + call("twice_and_one") +
                               "\nbra $STORE;\n$EVEN:\n" + call("twice"),
                           kFunctions);
  const auto result = run(text, 40);
  for (uint32_t i = 0; i < 40; ++i) EXPECT_EQ(result[i], 2 * i + (i % 2 == 1 && i >= 5 ? 1 : 0)) << i;
}

TEST(Control, RecursionAndUnknownCallsAreRefused) {
  const std::string recursion = ".func f() { call.uni f, (); ret; }\n";
  EXPECT_NE(refusal(kernel("call.uni f, ();", recursion)).find("recursion"), std::string::npos);
  const std::string print = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n";
  EXPECT_NE(refusal(kernel("{ .param .b64 a; .param .b64 c; .param .b32 b; call (b), vprintf, (a, c); }", print))
                .find("vprintf"),
            std::string::npos);
}

TEST(Control, AFailedAssertionAndATrapAreFaults) {
  const std::string assertion = ".extern .func __assertfail (.param .b64 a);\n";
  EXPECT_EQ(fault_of(kernel("{ .param .b64 a; call.uni __assertfail, (a); }", assertion), 1),
            KernelFault::Kind::IllegalInstruction);
  EXPECT_EQ(fault_of(kernel("trap;"), 1), KernelFault::Kind::IllegalInstruction);
}

TEST(Control, ALaneMayWaitForItsNeighbour) {
  // A lock that one lane holds while the others of its warp spin.
  const std::string text = ptx_header() + R"(
.global .u32 lock;
.global .u32 sum;
.visible .entry test(.param .u64 out)
{
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd0, [out];
$AGAIN:
  atom.global.cas.b32 %r1, [lock], 0, 1;
  setp.eq.u32 %p1, %r1, 0;
  @!%p1 bra $AGAIN;
  ld.volatile.global.u32 %r2, [sum];
  add.u32 %r2, %r2, 1;
  st.volatile.global.u32 [sum], %r2;
  st.volatile.global.u32 [%rd0], %r2;
  membar.gl;
  atom.global.exch.b32 %r3, [lock], 0;
  ret;
}
)";
  for (uint64_t seed = 0; seed < 4; ++seed) {
    TestModule test(text);
    const uint64_t out = test.upload(std::vector<uint32_t>(1));
    test.run("test", launch_of(2, 64, seed), out);
    EXPECT_EQ(test.download<uint32_t>(out, 1)[0], 128U);
  }
}

TEST(Control, AnEndlessLoopTimesOut) {
  MachineOptions options;
  options.max_instructions = 100000;
  EXPECT_EQ(fault_of(kernel("$L: bra $L;"), 32, options), KernelFault::Kind::Timeout);
}

// Reverses an array of a block through shared memory.
std::string reverse(const std::string& barrier) {
  return kernel(
      ".shared .align 4 .b8 place[1024];\nmov.u32 %r3, place;\nshl.b32 %r4, %r1, 2;\nadd.u32 %r5, %r3, %r4;\n"
      "st.shared.u32 [%r5], %r1;\n" +
      barrier +
      "\nmov.u32 %r6, %ntid.x;\nsub.u32 %r6, %r6, 1;\nsub.u32 %r6, %r6, %r1;\nshl.b32 %r6, %r6, 2;\nadd.u32 %r5, %r3, "
      "%r6;\n"
      "ld.shared.u32 %r0, [%r5];");
}

TEST(Control, ABarrierHoldsAllWarps) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto result = run(reverse("bar.sync 0;"), 256, seed);
    for (uint32_t i = 0; i < 256; ++i) ASSERT_EQ(result[i], 255 - i) << seed;
  }
}

TEST(Control, AMissingBarrierShows) {
  size_t wrong = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto result = run(reverse(""), 256, seed);
    for (uint32_t i = 0; i < 256; ++i) wrong += result[i] != 255 - i;
  }
  EXPECT_GT(wrong, 0U);
}

TEST(Control, RacesAreFound) {
  MachineOptions options;
  options.find_races = true;
  EXPECT_EQ(fault_of(reverse(""), 256, options), KernelFault::Kind::Race);
  EXPECT_EQ(fault_of(reverse(""), 32, options), KernelFault::Kind::Race);  // lanes of one warp, without bar.warp.sync
  EXPECT_EQ(run(reverse("bar.sync 0;"), 256, 3, options)[0], 255U);
  EXPECT_EQ(run(reverse("bar.warp.sync 0xffffffff;"), 32, 3, options)[0], 31U);
  EXPECT_EQ(fault_of(reverse("bar.warp.sync 0xffffffff;"), 64, options), KernelFault::Kind::Race);
}

TEST(Control, APlainReadOfAnAtomicIsARaceWithoutABarrier) {
  MachineOptions options;
  options.find_races = true;
  const auto text = [](const std::string& barrier) {
    return kernel(
        ".shared .b32 sum;\nsetp.eq.u32 %p0, %r1, 0;\n@%p0 st.shared.u32 [sum], 0;\nbar.sync 0;\n"
        "atom.shared.add.u32 %r2, [sum], 1;\n" +
        barrier + "\nld.shared.u32 %r0, [sum];");
  };
  EXPECT_EQ(fault_of(text(""), 64, options), KernelFault::Kind::Race);
  EXPECT_EQ(run(text("bar.sync 0;"), 64, 2, options), std::vector<uint32_t>(64, 64));
}

// The last block to raise a counter reads what all have written.
TEST(Control, ACounterOrdersBlocks) {
  const auto text = [](const std::string& read, const std::string& fence = "membar.gl;") {
    return ptx_header() + R"(
.global .u32 done;
.visible .entry test(.param .u64 out)
{
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [out];
  mov.u32 %r4, %ctaid.x;
  mul.wide.u32 %rd1, %r4, 4;
  add.u64 %rd2, %rd0, %rd1;
  st.global.u32 [%rd2], 7;
  )" + fence +
           "\n" + read + R"(
  ld.global.u32 %r2, [%rd0];
  ld.global.u32 %r3, [%rd0+4];
  add.u32 %r2, %r2, %r3;
  st.global.u32 [%rd0+8], %r2;
$END:
  ret;
}
)";
  };
  MachineOptions options;
  options.find_races = true;
  const std::string last = " %r1, [done], 1; setp.ne.u32 %p1, %r1, 1; @%p1 bra $END;";
  const auto result = [&](const std::string& ptx) {
    TestModule test(ptx, options);
    const uint64_t out = test.upload(std::vector<uint32_t>(4));
    test.run("test", launch_of(2, 1, 1), out);
    return test.download<uint32_t>(out, 4)[2];
  };
  EXPECT_EQ(result(text("atom.global.add.u32" + last + "membar.gl;")), 14U);
  EXPECT_EQ(result(text("atom.acq_rel.gpu.global.add.u32" + last, "")), 14U);
  // PTX ISA "Release and Acquire Patterns": a relaxed access needs its fence, of a scope that holds both threads.
  EXPECT_THROW(result(text("atom.global.add.u32" + last)), KernelFault);
  EXPECT_THROW(result(text("atom.global.add.u32" + last + "membar.gl;", "")), KernelFault);
  EXPECT_THROW(result(text("atom.global.add.u32" + last + "membar.gl;", "membar.cta;")), KernelFault);
  EXPECT_THROW(result(text("setp.ne.u32 %p1, %r4, 1; @%p1 bra $END;")), KernelFault);
}

TEST(Control, BarriersReduceAndCount) {
  const auto count = run(kernel("setp.lt.u32 %p0, %r1, 40; bar.red.popc.u32 %r0, 0, %p0;"), 70);
  EXPECT_EQ(count, std::vector<uint32_t>(70, 40));
  const auto all = run(kernel("setp.lt.u32 %p0, %r1, 69; bar.red.and.pred %p1, 0, %p0; selp.u32 %r0, 1, 0, %p1;"), 70);
  EXPECT_EQ(all, std::vector<uint32_t>(70, 0));
  const auto any = run(kernel("setp.eq.u32 %p0, %r1, 69; bar.red.or.pred %p1, 0, %p0; selp.u32 %r0, 1, 0, %p1;"), 70);
  EXPECT_EQ(any, std::vector<uint32_t>(70, 1));
}

TEST(Control, BarriersForSomeWarps) {
  // The first warp arrives, the second waits for it; the third is not concerned.
  const auto result =
      run(kernel("shr.u32 %r2, %r1, 5; mov.u32 %r0, %r2; setp.eq.u32 %p0, %r2, 0; setp.eq.u32 %p1, %r2, 1;\n"
                 "@%p0 barrier.arrive 3, 64;\n@%p1 barrier.sync 3, 64;"),
          96);
  EXPECT_EQ(result[95], 2U);
}

TEST(Control, ABarrierThatOneWarpMissesIsADeadlock) {
  EXPECT_EQ(
      fault_of(kernel("shr.u32 %r2, %r1, 5; setp.eq.u32 %p0, %r2, 0; mov.u32 %r0, 0;\n@%p0 barrier.sync 1, 96;"), 64),
      KernelFault::Kind::Deadlock);
  // Threads that have ended are not waited for.
  EXPECT_EQ(run(kernel("setp.ge.u32 %p0, %r1, 32; @%p0 exit; mov.u32 %r0, 1; bar.sync 0;"), 64)[0], 1U);
}

TEST(Control, CooperativeBlocksWaitForEachOther) {
  // A barrier of the grid by a counter, which needs all blocks at once.
  const std::string text = ptx_header() + R"(
.global .u32 arrived;
.visible .entry test(.param .u64 out)
{
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [out];
  atom.global.add.u32 %r1, [arrived], 1;
  mov.u32 %r2, %nctaid.x;
$WAIT:
  ld.acquire.gpu.global.u32 %r3, [arrived];
  setp.lt.u32 %p1, %r3, %r2;
  @%p1 bra $WAIT;
  mov.u32 %r4, %ctaid.x;
  mul.wide.u32 %rd1, %r4, 4;
  add.u64 %rd2, %rd0, %rd1;
  st.global.u32 [%rd2], %r3;
  ret;
}
)";
  TestModule test(text);
  const uint64_t out = test.upload(std::vector<uint32_t>(40));
  Launch launch = launch_of(40, 1, 5);
  launch.cooperative = true;
  test.run("test", launch, out);
  EXPECT_EQ(test.download<uint32_t>(out, 40), std::vector<uint32_t>(40, 40));
}

}  // namespace
}  // namespace stepfuse::vgpu
