// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/cpu_features.h"

#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

constexpr unsigned bits(std::initializer_list<int> indices) {
  unsigned word = 0;
  for (const int index : indices) word |= 1u << index;
  return word;
}

/// A Sapphire Rapids server as the hardware shows itself.
CpuidWords full_server() {
  return CpuidWords{.leaf1_ecx = bits({0, 9, 12, 19, 20, 22, 23, 27, 28, 29}),
                    .leaf1_edx = bits({25, 26}),
                    .leaf7_ebx = bits({3, 5, 8, 16, 17, 28, 30, 31}),
                    .leaf7_ecx = 0,
                    .leaf7_edx = bits({22, 24, 25}),
                    .leaf7_1_eax = bits({5}),
                    .xcr0 = 0x600e7,
                    .leaf80000001_ecx = bits({5})};
}

bool has(const CpuTarget& target, const std::string& feature) {
  return ("," + target.llvm_features + ",").find("," + feature + ",") != std::string::npos;
}

TEST(CpuFeatures, FullServerHasEverything) {
  const CpuTarget target = host_cpu_target(full_server());
  EXPECT_TRUE(target.avx2 && target.fma && target.f16c && target.avx512 && target.avx512_bf16 && target.amx_bf16);
  EXPECT_EQ(target.vector_bytes, 64);
  EXPECT_EQ(target.llvm_features,
            "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,"
            "+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl,"
            "-avx512bf16,-avx512fp16,-avxneconvert,-amx-tile,-amx-int8,-amx-bf16,-amx-fp16");
}

// F01: the model supports AVX-512, the hypervisor hides it.
TEST(CpuFeatures, HiddenAvx512IsNotUsed) {
  struct Case {
    const char* what;
    void (*hide)(CpuidWords&);
  };
  const Case cases[] = {
      {"all feature bits", [](CpuidWords& w) { w.leaf7_ebx &= ~bits({16, 17, 28, 30, 31}); }},
      {"only avx512f", [](CpuidWords& w) { w.leaf7_ebx &= ~bits({16}); }},
      {"only avx512vl", [](CpuidWords& w) { w.leaf7_ebx &= ~bits({31}); }},
      {"opmask state in XCR0", [](CpuidWords& w) { w.xcr0 &= ~0x20ull; }},
      {"upper ZMM state in XCR0", [](CpuidWords& w) { w.xcr0 = 0x7; }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    CpuidWords words = full_server();
    c.hide(words);
    const CpuTarget target = host_cpu_target(words);
    EXPECT_FALSE(target.avx512 || target.avx512_bf16 || target.amx_bf16);
    EXPECT_TRUE(target.avx2 && target.fma);
    EXPECT_EQ(target.vector_bytes, 32);
    EXPECT_EQ(target.llvm_features.find("+avx512"), std::string::npos);
    EXPECT_TRUE(has(target, "-avx512f") && has(target, "-avx512vl") && has(target, "+avx2"));
  }
}

TEST(CpuFeatures, AFeatureNeedsWhatItImplies) {
  CpuidWords words = full_server();
  words.leaf1_ecx &= ~bits({12});  // FMA hidden: AVX-512 would imply it
  CpuTarget target = host_cpu_target(words);
  EXPECT_FALSE(target.fma || target.avx512);
  EXPECT_TRUE(has(target, "-fma") && has(target, "-avx512f") && has(target, "+avx2"));

  words = full_server();
  words.leaf1_ecx &= ~bits({27});  // no OSXSAVE: the kernel does not save ymm registers
  target = host_cpu_target(words);
  EXPECT_FALSE(target.avx2 || target.fma || target.avx512);
  EXPECT_EQ(target.vector_bytes, 16);
  EXPECT_TRUE(has(target, "+sse4.2") && has(target, "-avx"));
}

TEST(CpuFeatures, AmxNeedsTileState) {
  CpuidWords words = full_server();
  words.xcr0 = 0xe7;
  const CpuTarget target = host_cpu_target(words);
  EXPECT_TRUE(target.avx512_bf16);
  EXPECT_FALSE(target.amx_bf16);
}

TEST(CpuFeatures, NamedLevels) {
  const Result<CpuTarget> v3 = cpu_target("x86-64-v3");
  ASSERT_TRUE(v3.has_value());
  EXPECT_EQ(v3->vector_bytes, 32);
  EXPECT_FALSE(v3->avx512);
  const Result<CpuTarget> v4 = cpu_target("x86-64-v4");
  ASSERT_TRUE(v4.has_value());
  EXPECT_EQ(v4->vector_bytes, 64);
  EXPECT_FALSE(v4->avx512_bf16 || v4->amx_bf16);
  const Result<CpuTarget> wrong = cpu_target("skylake");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().code, StatusCode::InvalidArgument);
  EXPECT_NE(wrong.error().hint.find("x86-64-v4"), std::string::npos);
}

TEST(CpuFeatures, CheckRunsHereNamesWhatIsMissing) {
  CpuTarget target = *cpu_target("cpu");
  EXPECT_TRUE(check_runs_here(target).has_value());
  target.llvm_features += ",+unobtainium,-sse9";
  const Outcome outcome = check_runs_here(target);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, StatusCode::Environment);
  EXPECT_NE(outcome.error().message.find("lacks unobtainium"), std::string::npos) << outcome.error().message;
}

}  // namespace
}  // namespace stepfuse::runtime
