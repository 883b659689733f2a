// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The real NVRTC, wherever the usual rules find it; without one these are skipped.
#include "runtime/cuda/nvrtc.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kScale = R"(
extern "C" __global__ void __launch_bounds__(256) scale(float4* x, unsigned n, float by) {
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  float4 v = x[i];
  v.x *= by;
  v.w *= by;
  x[i] = v;
}
)";

class RealNvrtc : public testing::Test {
 protected:
  void SetUp() override {
    const auto opened = Nvrtc::open(Settings::resolve({}, Settings::process_environment()).value());
    if (!opened) GTEST_SKIP() << opened.error().message;
    nvrtc_ = *opened;
  }

  Result<CudaBinary> compile(const std::string& source, const std::string& arch,
                             const std::vector<std::string>& options = {}) const {
    return nvrtc_->compile(source, "probe", options, parse_cuda_arch(arch).value());
  }

  const Nvrtc* nvrtc_ = nullptr;
};

TEST_F(RealNvrtc, ARealArchitectureGivesMachineCodeAndPtx) {
  const auto binary = compile(kScale, "sm_90");
  ASSERT_TRUE(binary) << binary.error().message;
  ASSERT_GT(binary->cubin.size(), 64U);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(binary->cubin.data()), 4), "\177ELF");
  EXPECT_THAT(binary->ptx, AllOf(HasSubstr(".target sm_90"), HasSubstr(".entry scale"), HasSubstr("v4")));
  ASSERT_TRUE(binary->usage);
  EXPECT_GT(binary->usage->registers, 4);
  EXPECT_LT(binary->usage->registers, 32);
  EXPECT_EQ(binary->usage->spill_bytes, 0);
  EXPECT_EQ(binary->usage->shared_bytes, 0);
}

TEST_F(RealNvrtc, AVirtualArchitectureGivesPtxAlone) {
  const auto binary = compile(kScale, "compute_90");
  ASSERT_TRUE(binary) << binary.error().message;
  EXPECT_THAT(binary->cubin, IsEmpty());
  EXPECT_THAT(binary->ptx, HasSubstr(".entry scale"));
  EXPECT_FALSE(binary->usage);
}

TEST_F(RealNvrtc, EveryListedArchitectureCompiles) {
  ASSERT_FALSE(nvrtc_->supported_archs().empty());
  for (const int number : nvrtc_->supported_archs()) {
    const auto binary = compile(kScale, fmt::format("sm_{}", number));
    ASSERT_TRUE(binary) << binary.error().message;
    EXPECT_TRUE(binary->usage) << binary->log;
  }
}

// 256 threads of at most 32 registers cannot hold 64 live values.
TEST_F(RealNvrtc, SpillsAndSharedMemoryAreCounted) {
  const std::string source = R"(
extern "C" __global__ void wide(float* x) {
  __shared__ float tile[512];
  float v[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = x[threadIdx.x + i * 256];
  tile[threadIdx.x] = v[3];
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 64; ++i) x[threadIdx.x + i * 256] = v[i] * v[63 - i] + tile[511 - threadIdx.x] + v[(i * 7) % 64];
}
)";
  const auto binary = compile(source, "sm_90", {"--maxrregcount=32"});
  ASSERT_TRUE(binary) << binary.error().message;
  ASSERT_TRUE(binary->usage);
  EXPECT_EQ(binary->usage->registers, 32);
  EXPECT_GT(binary->usage->spill_bytes, 0);
  EXPECT_GE(binary->usage->shared_bytes, 2048);
}

TEST_F(RealNvrtc, SameInputsGiveTheSameBytes) {
  const auto first = compile(kScale, "sm_80"), second = compile(kScale, "sm_80");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->cubin, second->cubin);
  EXPECT_EQ(first->ptx, second->ptx);
}

TEST_F(RealNvrtc, ThreadsCompileAtOnce) {
  std::vector<std::thread> threads;
  std::vector<std::string> ptx(4);
  for (std::string& text : ptx)
    threads.emplace_back([&] {
      if (const auto binary = compile(kScale, "sm_86")) text = binary->ptx;
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : ptx) EXPECT_EQ(text, ptx.front());
  EXPECT_THAT(ptx.front(), HasSubstr(".entry scale"));
}

TEST_F(RealNvrtc, IsOpenedOnce) {
  const auto again = Nvrtc::open(Settings::resolve({}, Settings::process_environment()).value());
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, nvrtc_);
}

TEST_F(RealNvrtc, ASourceThatDoesNotCompileIsAnInternalErrorWithTheLog) {
  const auto binary = compile("extern \"C\" __global__ void k() { undeclared(); }", "sm_90");
  ASSERT_FALSE(binary);
  EXPECT_EQ(binary.error().code, StatusCode::Internal);
  EXPECT_THAT(binary.error().message, AllOf(HasSubstr("probe"), HasSubstr("undeclared"), HasSubstr("sm_90")));
}

// What is generated brings all it needs. No header is reachable, not even CUDA's own.
TEST_F(RealNvrtc, E03_NoHeaderOfTheToolkitIsReachable) {
  for (const char* header : {"cuda_bf16.h", "cuda_fp16.h", "cuda_runtime.h"}) {
    const auto binary = compile(fmt::format("#include <{}>\n{}", header, kScale), "sm_90");
    ASSERT_FALSE(binary) << header;
    EXPECT_THAT(binary.error().message, HasSubstr(header));
  }
}

TEST_F(RealNvrtc, E04_AnUnknownArchitectureIsRefusedWithWhatIsKnown) {
  const int highest = nvrtc_->supported_archs().back();
  for (const char* name : {"sm_999", "sm_20", "compute_999", "sm_90f", "sm_80a"}) {
    const auto binary = compile(kScale, name);
    ASSERT_FALSE(binary) << name;
    EXPECT_EQ(binary.error().code, StatusCode::Environment) << name;
    EXPECT_THAT(binary.error().message,
                AllOf(HasSubstr(fmt::format("for {} ", name)), HasSubstr("NVRTC " + nvrtc_->version()),
                      HasSubstr(nvrtc_->path()), HasSubstr(fmt::format("the highest it knows is sm_{}", highest))));
    EXPECT_THAT(binary.error().hint, HasSubstr(fmt::format(", {}", highest)));
  }
  EXPECT_THAT(compile(kScale, "sm_999").error().message, HasSubstr("capability 99.9"));
  EXPECT_THAT(compile(kScale, "sm_999").error().hint, HasSubstr(fmt::format("use compute_{}", highest)));
  EXPECT_THAT(compile(kScale, "sm_20").error().hint, Not(HasSubstr("use compute_")));
  EXPECT_THAT(compile(kScale, "sm_80a").error().hint, HasSubstr("no variant with suffix a"));
}

TEST_F(RealNvrtc, SaysWhereItIs) {
  EXPECT_THAT(nvrtc_->path(), HasSubstr("libnvrtc.so.1"));
  EXPECT_THAT(nvrtc_->version(), ContainsRegex("^1[23]\\.[0-9]+$"));
  EXPECT_THAT(nvrtc_->rule(), Not(IsEmpty()));
}

// As NVRTC 13.0 prints it for `--ptxas-options=--verbose`.
TEST(ReadUsage, TakesTheWorstOfSeveralKernels) {
  const auto usage = read_usage(
      "ptxas info    : Compiling entry function 'a' for 'sm_90'\n"
      "ptxas         .     0 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 1 barriers, 256 bytes smem\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90'\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 48 registers, used 0 barriers\n");
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->registers, 48);
  EXPECT_EQ(usage->spill_bytes, 40);
  EXPECT_EQ(usage->shared_bytes, 256);
  EXPECT_FALSE(read_usage(""));
  EXPECT_FALSE(read_usage("a warning\n"));
}

}  // namespace
}  // namespace stepfuse::runtime
