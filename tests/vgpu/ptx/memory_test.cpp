// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/test_instruction.h"

#include <bit>

namespace stepfuse::vgpu {
namespace {

struct Result {
  std::vector<uint32_t> words;
  std::optional<KernelFault::Kind> fault;
};

// One thread; %rd0 is the address of 64 words, which count up from 0.
Result run(const std::string& body, const std::string& before = "", uint32_t threads = 1, MachineOptions options = {},
           uint32_t dynamic_shared = 0, int capability = 100) {
  const std::string text =
      ptx_header(capability) + before +
      ".visible .entry test(.param .u64 data, .param .align 8 .b8 block[16])\n{\n.reg .pred %p<4>;\n.reg .b16 %h<8>;\n"
      ".reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<8>;\n.reg .f64 %fd<4>;\n.reg .b128 %q<4>;\n"
      "ld.param.u64 %rd0, [data];\n" +
      body + "\nret;\n}\n";
  TestModule test(text, options);
  std::vector<uint32_t> words(64);
  for (uint32_t i = 0; i < 64; ++i) words[i] = i;
  const uint64_t data = test.upload(words);
  Launch launch;
  launch.block.x = threads;
  launch.dynamic_shared_bytes = dynamic_shared;
  Result result;
  try {
    test.run("test", launch, data, uint64_t{0x1122334455667788}, uint64_t{7});
  } catch (const KernelFault& fault) {
    result.fault = fault.kind;
  }
  result.words = test.download<uint32_t>(data, 64);
  return result;
}

TEST(Memory, VectorsOfEveryWidth) {
  EXPECT_EQ(run("ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%rd0+16]; st.global.v2.u32 [%rd0], {%r3, %r1};").words[0], 7U);
  EXPECT_EQ(run("ld.global.nc.L1::no_allocate.v4.b32 {%r0,_,%r2,%r3}, [%rd0+16]; st.global.u32 [%rd0], %r2;").words[0],
            6U);
  EXPECT_EQ(run("ld.global.v8.b32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%rd0+16]; st.global.u32 [%rd0], %r7;").fault,
            KernelFault::Kind::MisalignedAddress);
  EXPECT_EQ(run("ld.global.v8.b32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%rd0+32]; st.global.u32 [%rd0], %r7;").words[0],
            15U);
  EXPECT_EQ(run("ld.global.v2.u64 {%rd1,%rd2}, [%rd0+16]; st.global.u64 [%rd0], %rd2;").words[1], 7U);
  EXPECT_EQ(run("ld.global.b128 %q0, [%rd0+16]; st.global.b128 [%rd0], %q0;").words[3], 7U);
  EXPECT_EQ(run("ld.global.b128 %q0, [%rd0+16]; mov.b128 {%rd1, %rd2}, %q0; st.global.u64 [%rd0], %rd2;").words[0], 6U);
  EXPECT_EQ(run("ld.global.u16 %h0, [%rd0+4]; mov.b32 %r0, {%h0, %h0}; st.global.u32 [%rd0], %r0;").words[0],
            0x00010001U);
  EXPECT_EQ(
      run("mov.u32 %r0, -2; st.global.u8 [%rd0], %r0; ld.global.s8 %r1, [%rd0]; st.global.u32 [%rd0], %r1;").words[0],
      0xfffffffeU);
  EXPECT_EQ(
      run("mov.u32 %r0, -2; st.global.u16 [%rd0], %r0; ld.global.u16 %r1, [%rd0]; st.global.u32 [%rd0], %r1;").words[0],
      0xfffeU);
  EXPECT_NE(refused_instruction("ld.global.v4.u64 {%base,%base,%base,%base}, [%place];", all_of("b64"), 90), "");
}

TEST(Memory, Faults) {
  EXPECT_EQ(run("ld.global.u32 %r0, [%rd0+2];").fault, KernelFault::Kind::MisalignedAddress);
  EXPECT_EQ(run("ld.global.u32 %r0, [%rd0+256];").fault, KernelFault::Kind::IllegalAddress);
  EXPECT_EQ(run("ld.global.u32 %r0, [%rd0+-4];").fault, KernelFault::Kind::IllegalAddress);
  EXPECT_EQ(run("st.global.u32 [%rd5], %r0;").fault,
            KernelFault::Kind::MisalignedAddress);  // a register that nobody wrote
  EXPECT_EQ(run(".shared .b32 s; mov.u32 %r0, s; ld.shared.u32 %r1, [%r0+4];").fault,
            KernelFault::Kind::IllegalAddress);
  EXPECT_EQ(run(".local .b32 s; mov.u64 %rd1, s; ld.local.u32 %r1, [%rd1+32];").fault,
            KernelFault::Kind::IllegalAddress);
  EXPECT_EQ(run("mov.u64 %rd1, table; cvta.const.u64 %rd2, %rd1; st.u32 [%rd2], 1;", ".const .u32 table[2] = {1, 2};\n")
                .fault,
            KernelFault::Kind::IllegalAddress);
}

TEST(Memory, SharedAndLocalArePoisoned) {
  EXPECT_EQ(run(".shared .b32 s; ld.shared.u32 %r0, [s]; st.global.u32 [%rd0], %r0;").words[0], 0xffffffffU);
  EXPECT_EQ(run(".local .b32 s; ld.local.u32 %r0, [s]; st.global.u32 [%rd0], %r0;").words[0], 0xffffffffU);
}

TEST(Memory, GenericAddressesFindTheirSpace) {
  EXPECT_EQ(run(".shared .align 4 .b8 s[8]; mov.u64 %rd1, s; cvta.shared.u64 %rd2, %rd1; st.u32 [%rd2+4], 77;\n"
                "ld.shared.u32 %r0, [s+4]; st.global.u32 [%rd0], %r0;")
                .words[0],
            77U);
  EXPECT_EQ(run(".local .align 4 .b8 s[8]; mov.u64 %rd1, s; cvta.local.u64 %rd2, %rd1; st.u32 [%rd2+4], 78;\n"
                "cvta.to.local.u64 %rd3, %rd2; ld.local.u32 %r0, [%rd3+4]; st.u32 [%rd0], %r0;")
                .words[0],
            78U);
  EXPECT_EQ(run(".shared .b32 s; cvta.shared.u64 %rd2, s; isspacep.shared %p0, %rd2; isspacep.global %p1, %rd0;\n"
                "and.pred %p0, %p0, %p1; selp.u32 %r0, 1, 0, %p0; st.global.u32 [%rd0], %r0;")
                .words[0],
            1U);
  EXPECT_EQ(run("mov.b64 %rd1, block; ld.param.u32 %r0, [%rd1+4]; st.global.u32 [%rd0], %r0;").words[0], 0x11223344U);
  EXPECT_EQ(run("ld.param.u8 %r0, [block+8]; st.global.u32 [%rd0], %r0;").words[0], 7U);
}

TEST(Memory, DynamicSharedMemoryFollowsTheStatic) {
  const std::string dynamic = ".extern .shared .align 16 .b8 d[];\n";
  EXPECT_EQ(run(".shared .align 4 .b8 s[20]; mov.u32 %r1, d; st.global.u32 [%rd0], %r1; st.shared.u32 [d+60], 1;\n"
                "st.shared.u32 [s], 2; mov.u32 %r2, %dynamic_smem_size; st.global.u32 [%rd0+4], %r2;",
                dynamic, 1, {}, 64)
                .words[0],
            32U);
  EXPECT_EQ(run("st.shared.u32 [d+64], 1;", dynamic, 1, {}, 64).fault, KernelFault::Kind::IllegalAddress);
}

TEST(Memory, VariablesOfAModule) {
  const std::string before =
      ".const .align 4 .f32 c[3] = {0f3F800000, 2.5, -0f40400000};\n.global .align 4 .u32 g[4] = {1, 0x10, 017};\n"
      ".global .align 8 .u64 pointer = g+4;\n.global .align 8 .u64 other = generic(g);\n.global .align 1 .b8 bytes[4] "
      "= {1, 2, 3};\n";
  EXPECT_EQ(run("ld.const.f32 %f0, [c+4]; st.global.f32 [%rd0], %f0;", before).words[0], std::bit_cast<uint32_t>(2.5F));
  EXPECT_EQ(
      run("ld.global.u64 %rd1, [pointer]; ld.global.u32 %r0, [%rd1]; st.global.u32 [%rd0], %r0;", before).words[0],
      16U);
  EXPECT_EQ(run("ld.global.u64 %rd1, [other]; ld.u32 %r0, [%rd1+8]; st.global.u32 [%rd0], %r0;", before).words[0], 15U);
  EXPECT_EQ(run("ld.global.u32 %r0, [g+12]; st.global.u32 [%rd0], %r0;", before).words[0], 0U);
  TestModule test(ptx_header() + before);
  ASSERT_TRUE(test.module().variable("g"));
  EXPECT_EQ(test.module().variable("g")->second, 16U);
  EXPECT_FALSE(test.module().variable("nothing"));
}

TEST(Memory, Atomics) {
  EXPECT_EQ(run("atom.global.add.u32 %r0, [%rd0], 5;", "", 64).words[0], 320U);
  EXPECT_EQ(run("red.global.max.s32 [%rd0], -1; red.global.max.s32 [%rd0+4], 9;").words[1], 9U);
  EXPECT_EQ(run("atom.global.cas.b32 %r0, [%rd0+8], 2, 50; st.global.u32 [%rd0], %r0;").words[2], 50U);
  EXPECT_EQ(run("atom.global.inc.u32 %r0, [%rd0+8], 2; st.global.u32 [%rd0], %r0;").words[2], 0U);
  EXPECT_EQ(run("atom.global.dec.u32 %r0, [%rd0], 9;").words[0], 9U);
  EXPECT_EQ(run("atom.global.exch.b64 %rd1, [%rd0+8], 1; st.global.u64 [%rd0], %rd1;").words[1], 3U);
  EXPECT_EQ(run("mov.f32 %f0, 0f3F800000; st.global.f32 [%rd0], %f0; red.global.add.f32 [%rd0], %f0;", "", 1).words[0],
            std::bit_cast<uint32_t>(2.0F));
  EXPECT_EQ(run(".shared .b32 s; st.shared.u32 [s], 0; bar.sync 0; atom.shared.add.u32 %r0, [s], 1; bar.sync 0;\n"
                "ld.shared.u32 %r1, [s]; st.global.u32 [%rd0], %r1;",
                "", 96)
                .words[0],
            96U);
  EXPECT_NE(refused_instruction("atom.global.mul.u32 %d, [%place], %a;", all_of("u32")), "");
  EXPECT_NE(refused_instruction("atom.global.add.noftz.f16 %d, [%place], %a;", {"f16", "b32"}), "");
}

TEST(Memory, RacesBetweenBlocks) {
  const std::string text = ptx_header() + R"(
.visible .entry test(.param .u64 data)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [data];
  mov.u32 %r0, %ctaid.x;
  st.global.u32 [%rd0], %r0;
  ret;
}
)";
  MachineOptions options;
  options.find_races = true;
  TestModule test(text, options);
  const uint64_t data = test.upload(std::vector<uint32_t>(4));
  Launch launch;
  test.run("test", launch, data);
  launch.grid.x = 2;
  EXPECT_THROW(test.run("test", launch, data), KernelFault);
}

TEST(Text, IsRefusedWithLineAndText) {
  EXPECT_NE(refusal("").find("expected '.version'"), std::string::npos);
  EXPECT_NE(refusal(".version 99.0\n.target sm_75\n").find("this machine knows"), std::string::npos);
  EXPECT_NE(refusal(".version 8.0\n.target sm_90a\n"), "");
  EXPECT_NE(refusal(".version 8.0\n.target sm_130\n").find("above this device's"), std::string::npos);
  EXPECT_NE(refusal(ptx_header() + ".visible .entry k() {\n  .reg .b32 %r;\n  mov.b32 %r, %x;\n}\n").find("ptx line 6"),
            std::string::npos);
  EXPECT_NE(refusal(ptx_header() + ".entry k() { bra $NOWHERE; }\n").find("no label"), std::string::npos);
  EXPECT_NE(refusal(ptx_header() + ".entry k() { .reg .b32 %r; ld.global.L2::cache_hint.u32 %r, [%rd]; }\n"), "");
  EXPECT_NE(refusal(ptx_header() + ".global .texref t;\n"), "");
  EXPECT_NE(refusal(ptx_header() + ".entry k() { /* no end"), "");
  EXPECT_NE(refusal(ptx_header() + ".entry k() .reqnctapercluster 2 { ret; }"), "");
  EXPECT_EQ(refusal(ptx_header() + ".file 1 \"a.cu\"\n.section .debug_str { .b8 1,2 }\n.entry k() .maxnreg 32 {\n.loc "
                                   "1 2 3\n.pragma \"nounroll\";\nret;\n}"),
            "");
}

}  // namespace
}  // namespace stepfuse::vgpu
