// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/machine.h"

#include "tests/vgpu/ptx/test_run.h"

#include <chrono>
#include <cstdio>
#include <random>

#include <gtest/gtest.h>

namespace stepfuse::vgpu {
namespace {

// y = a x + y with a bounds check.
const std::string kSaxpy = ptx_header(75) + R"(
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 .ptr .global .align 4 x, .param .u64 y)
.maxntid 128, 1, 1
.minnctapersm 2
{
  .reg .pred %p<2>;
  .reg .f32 %f<5>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  ld.param.u32 %r2, [n];
  ld.param.f32 %f1, [a];
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r1, %r3, %r4, %r5;
  setp.ge.s32 %p1, %r1, %r2;
  @%p1 bra $L__BB0_2;
  cvta.to.global.u64 %rd3, %rd2;
  cvta.to.global.u64 %rd4, %rd1;
  mul.wide.s32 %rd5, %r1, 4;
  add.s64 %rd6, %rd4, %rd5;
  ld.global.f32 %f2, [%rd6];
  add.s64 %rd7, %rd3, %rd5;
  ld.global.f32 %f3, [%rd7];
  fma.rn.f32 %f4, %f2, %f1, %f3;
  st.global.f32 [%rd7], %f4;
$L__BB0_2:
  ret;
}
)";

Launch launch_of(uint32_t blocks, uint32_t threads, uint64_t seed = 0) {
  Launch launch;
  launch.grid.x = blocks;
  launch.block.x = threads;
  launch.seed = seed;
  return launch;
}

TEST(Machine, SaxpyOfEverySize) {
  TestModule test(kSaxpy);
  for (const uint32_t n : {1U, 31U, 32U, 33U, 127U, 1000U}) {
    std::vector<float> x(n), y(n);
    for (uint32_t i = 0; i < n; ++i) {
      x[i] = static_cast<float>(i);
      y[i] = 0.5F;
    }
    const uint64_t dx = test.upload(x);
    const uint64_t dy = test.upload(y);
    test.run("saxpy", launch_of((n + 127) / 128, 128, n), n, 2.0F, dx, dy);
    const auto result = test.download<float>(dy, n);
    for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(result[i], 2 * x[i] + 0.5F) << i << " of " << n;
  }
}

TEST(Machine, AnAccessBeyondTheEndIsAFault) {
  TestModule test(kSaxpy);
  const uint64_t x = test.upload(std::vector<float>(100));
  const uint64_t y = test.upload(std::vector<float>(99));
  try {
    test.run("saxpy", launch_of(1, 128), 100U, 2.0F, x, y);
    FAIL() << "no fault";
  } catch (const KernelFault& fault) {
    EXPECT_EQ(fault.kind, KernelFault::Kind::IllegalAddress);
    EXPECT_NE(std::string(fault.what()).find("thread (99,0,0)"), std::string::npos) << fault.what();
    EXPECT_NE(std::string(fault.what()).find("ld.global.f32 %f3"), std::string::npos) << fault.what();
  }
}

TEST(Machine, DamagedTextIsRefusedAndNothingWorse) {
  std::mt19937 random(11);
  size_t refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = kSaxpy;
    const size_t at = random() % text.size();
    if (i % 3 == 0) text.erase(at, 1 + random() % 10);
    if (i % 3 == 1) text[at] = static_cast<char>(' ' + random() % 90);
    if (i % 3 == 2) text.insert(at, text.substr(random() % text.size(), 8));
    try {
      TestModule test(text);
    } catch (const PtxError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000U);
}

// A loop of one fma, one integer addition, a comparison and a branch; the figure is for readers of the log.
TEST(Machine, Speed) {
  const std::string text = ptx_header() + R"(
.visible .entry spin(.param .u64 out, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd0, [out];
  ld.param.u32 %r0, [n];
  mov.b32 %r1, 0;
  mov.b32 %f0, 0f3F800000;
$L:
  fma.rn.f32 %f0, %f0, 0f3F000000, 0f3F000000;
  add.s32 %r1, %r1, 1;
  setp.lt.u32 %p, %r1, %r0;
  @%p bra $L;
  st.global.f32 [%rd0], %f0;
  ret;
}
)";
  TestModule test(text);
  const uint64_t out = test.upload(std::vector<float>(1));
  constexpr uint32_t kTurns = 20000;
  const auto start = std::chrono::steady_clock::now();
  test.run("spin", launch_of(1, 256), out, kTurns);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(test.download<float>(out, 1)[0], 1.0F);
  std::printf("%.0f million instructions of threads per second\n", 4.0 * kTurns * 256 / seconds.count() * 1e-6);
}

TEST(Machine, SaysWhatTheTextSaysOfAKernel) {
  TestModule test(kSaxpy);
  const KernelInfo* info = test.module().find("saxpy");
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->parameter_bytes, 24U);
  ASSERT_EQ(info->parameters.size(), 4U);
  EXPECT_EQ(info->parameters[2].name, "x");
  EXPECT_EQ(info->parameters[2].offset, 8U);
  EXPECT_EQ(info->max_threads->x, 128U);
  EXPECT_EQ(info->min_blocks, 2U);
  // Before the store: an address of 64 bits, its value, and the product's sources.
  EXPECT_GE(info->registers, 5U);
  EXPECT_LE(info->registers, 12U);
  EXPECT_EQ(test.module().find("nothing"), nullptr);
}

}  // namespace
}  // namespace stepfuse::vgpu
