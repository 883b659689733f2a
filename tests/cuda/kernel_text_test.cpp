// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda_backend.h"
#include "tests/support/recipe_kernels.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const Settings& settings() {
  static const Settings resolved = Settings::resolve({}, Settings::process_environment()).value();
  return resolved;
}

// What is generated brings all it needs, conversions of bf16 and f16 among it.
TEST(CudaKernelText, E03_NoKernelIncludesAHeader) {
  for (const ir::Mode mode : {ir::Mode::Default, ir::Mode::Strict}) {
    const auto source = cuda_kernel_text(test::recipe_kernels(mode), "sm_90", CudaText::Source, settings());
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_THAT(*source, Not(HasSubstr("#include")));
  }
}

// By the compiler that is there: it gets no folder of headers.
TEST(CudaKernelText, E03_ABf16KernelCompilesWithoutTheToolkitsHeaders) {
  if (const auto test = cuda_self_test(settings()); !test) GTEST_SKIP() << test.error().message;
  std::vector<codegen::KernelSpec> kernels = test::recipe_kernels(ir::Mode::Default);
  std::erase_if(kernels, [](const codegen::KernelSpec& spec) {
    return std::none_of(spec.args.begin(), spec.args.end(),
                        [](const codegen::KernelArg& arg) { return arg.dtype == ir::DType::BF16; });
  });
  ASSERT_FALSE(kernels.empty());
  kernels.resize(1);
  const auto text = cuda_kernel_text(kernels, "sm_90", CudaText::Ptx, settings());
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text, AllOf(HasSubstr("// kernel " + kernels.front().name), HasSubstr(" registers, "),
                           HasSubstr("\n// loads: "), HasSubstr(".target sm_90")));
}

TEST(CudaKernelText, TargetsAreJudgedByTheirForm) {
  for (const char* target : {"cuda", "sm_90", "sm_90a", "sm_100f", "compute_120"})
    EXPECT_TRUE(check_cuda_target(target)) << target;
  for (const char* target : {"sm_", "sm_9", "compute_", "cuda0", "sm_90,sm_100"})
    EXPECT_FALSE(check_cuda_target(target)) << target;
}

TEST(CudaKernelText, TraitsFollowTheArchitecture) {
  const auto traits = cuda_target_traits("sm_90", settings());
  ASSERT_TRUE(traits);
  EXPECT_EQ(traits->name, "sm_90");
  EXPECT_TRUE(traits->bf16_products);
  EXPECT_FALSE(traits->symmetric_products);
  EXPECT_FALSE(traits->divides_in_cache);
  EXPECT_TRUE(traits->factors_in_memory);
  EXPECT_FALSE(cuda_target_traits("compute_75", settings())->bf16_products);
}

}  // namespace
}  // namespace stepfuse::runtime
