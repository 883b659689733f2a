// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The text of CUDA kernels: reviewed examples, and what holds for all of them. With UPDATE_GOLDENS=1 the
// examples are written anew; read the difference before committing it.
#include "codegen/cuda/emit_cuda.h"

#include "tests/support/recipe_kernels.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::codegen {
namespace {

using ir::DType;
using ir::Op;
using testing::HasSubstr;
using testing::Not;

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(STEPFUSE_SOURCE_DIR) + "/tests/cuda/goldens/" + name;
  if (std::getenv("UPDATE_GOLDENS") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << path;
}

/// The first of the recipes' kernels whose name ends so.
KernelSpec recipe_kernel(ir::Mode mode, const std::string& ending) {
  for (const KernelSpec& spec : test::recipe_kernels(mode))
    if (spec.name.ends_with(ending)) return spec;
  ADD_FAILURE() << "no kernel ends in " << ending;
  return {};
}

/// Each column scaled by its norm's first half: the sum of squares of one phase.
KernelSpec column_norms() {
  KernelSpec spec;
  spec.name = "stepfuse_columns_f32";
  spec.scheme = Scheme::Cols;
  spec.contiguous = false;
  spec.mode = ir::Mode::Strict;
  spec.args = {{"x", DType::F32, {false, true, true}, true, false}};
  spec.reductions = {{"norm", Op::Norm, DType::F64, {Operand::Kind::Arg, 0, 0}, DType::F32}};
  return spec;
}

TEST(EmitCuda_Goldens, AreAsReviewed) {
  const KernelSpec strict = recipe_kernel(ir::Mode::Strict, "adamw_update_f32");
  expect_golden("adamw_f32_aligned_strict.cu", emit_cuda(strict, {.aligned = true}).value());
  expect_golden("adamw_f32_generic_strict.cu", emit_cuda(strict, {.aligned = false}).value());
  const KernelSpec relaxed = recipe_kernel(ir::Mode::Default, "adamw_update_f32");
  expect_golden("adamw_f32_aligned_default.cu", emit_cuda(relaxed, {.aligned = true}).value());
  const KernelSpec bf16 = recipe_kernel(ir::Mode::Strict, "adamw_update_bf16");
  expect_golden("adamw_bf16_aligned_strict.cu", emit_cuda(bf16, {.aligned = true}).value());
  const KernelSpec pre = recipe_kernel(ir::Mode::Strict, "muon_pre_p0_bf16_f32");
  expect_golden("muon_pre_aligned_strict.cu", emit_cuda(pre, {.aligned = true}).value());
  expect_golden("column_norms.cu", emit_cuda(column_norms(), {.aligned = false}).value());
}

TEST(EmitCuda_Text, KeepsToItsRules) {
  for (const ir::Mode mode : {ir::Mode::Strict, ir::Mode::Default}) {
    for (const KernelSpec& spec : test::recipe_kernels(mode)) {
      for (const bool aligned : {false, true}) {
        const std::string text = emit_cuda(spec, {aligned}).value();
        EXPECT_THAT(text, HasSubstr("__launch_bounds__(256, 4)\n" + cuda_kernel_name(spec) + "("));
        EXPECT_THAT(text, Not(HasSubstr("#include")));
        EXPECT_THAT(text, HasSubstr("// kernel \"" + spec.name));
        EXPECT_EQ(text, emit_cuda(spec, {aligned}).value());
        // Tickets are the only atomics, and integers.
        for (size_t at = text.find("atomic"); at != std::string::npos; at = text.find("atomic", at + 1))
          EXPECT_EQ(text.substr(at, 25), "atomicAdd(row.tickets + c");
        if (spec.reductions.empty()) {
          EXPECT_THAT(text, Not(HasSubstr("__syncthreads")));
        }
      }
    }
  }
}

TEST(EmitCuda_Names, MayBeAnything) {
  KernelSpec spec = column_norms();
  spec.name = "7 of nine\\";
  spec.args[0].name = "float";
  spec.reductions[0].name = "float";
  const std::string text = emit_cuda(spec, {.aligned = false}).value();
  EXPECT_THAT(text, HasSubstr("\nv7_of_nine_("));
  EXPECT_THAT(text, HasSubstr("const float* float_2;"));
  EXPECT_THAT(text, HasSubstr("double* float_3_partials;"));
}

TEST(EmitCuda_Options, ContractInDefaultModeOnly) {
  EXPECT_THAT(nvrtc_options(ir::Mode::Strict), testing::Contains("--fmad=false"));
  EXPECT_THAT(nvrtc_options(ir::Mode::Default), testing::Contains("--fmad=true"));
  for (const ir::Mode mode : {ir::Mode::Strict, ir::Mode::Default})
    EXPECT_THAT(nvrtc_options(mode), testing::IsSupersetOf({"--ftz=false", "--prec-div=true", "--prec-sqrt=true"}));
}

TEST(EmitCuda_Refuses, MalformedKernels) {
  KernelSpec spec = column_norms();
  spec.reductions[0].math = DType::F32;
  const auto text = emit_cuda(spec, {});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, StatusCode::Internal);
}

TEST(EmitCuda_Abi, RowsAreWordsInOrder) {
  const CudaRowLayout layout = cuda_row_layout(column_norms());
  EXPECT_EQ(layout.args, 6U);
  EXPECT_EQ(layout.strides, 7U);
  EXPECT_EQ(layout.partials, 10U);
  EXPECT_EQ(layout.words, 12U);
}

TEST(EmitCuda_Abi, AlignedTextNeedsSixteenBytes) {
  const KernelSpec spec = recipe_kernel(ir::Mode::Strict, "adamw_update_f32");
  std::vector<CudaArgumentPlace> places(spec.args.size(), {0x1000, {}});
  EXPECT_TRUE(cuda_aligned(spec, {1, 1, 33}, places));
  places.back().address += 4;
  EXPECT_FALSE(cuda_aligned(spec, {1, 1, 33}, places));
}

}  // namespace
}  // namespace stepfuse::codegen
