// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference cases on a device: mistakes that other projects made, named by their id. Those about a product or a
// library alone are in lt_product_test.cpp and tests/cuda.
#include "tests/e2e/adamw_bounds.h"
#include "tests/vgpu/executor/caller.h"
#include "tests/vgpu/executor/rig.h"

#include <cmath>

#include <gmock/gmock.h>

namespace stepfuse::tests {
namespace {

using ir::DType;

using DeviceCases = CudaExecutor;

/// microsoft/dion issue 76: a whole matrix became NaN at some step, from scratch that nobody had written or that two
/// streams shared. Fresh memory of the virtual device holds NaN; the shape is that of the report, by 8.
TEST_F(DeviceCases, A14_RepeatedStepsAreFiniteAndEqualInEveryOrder) {
  std::vector<RigParameter> parameters(4);
  for (RigParameter& parameter : parameters) parameter.spec = {{64, 176}, DType::BF16, DType::BF16, DType::BF16};
  parameters[3].spec.shape = {176, 64};
  parameters.emplace_back().group = 1;
  parameters.back().spec.shape = {512};
  std::vector<RigValues> first;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    if (virtual_driver() != nullptr) virtual_driver()->set_seed(seed);
    Rig rig({{"muon", {}}, {"adamw", {}}}, parameters, {ir::Mode::Default, "cuda", {}, {}});
    Caller caller;
    const cuda::CUstream streams[] = {caller.make_stream(), caller.make_stream()};
    for (int step = 0; step < 4; ++step) rig.step(1, streams[step % 2]);
    for (uint32_t p = 0; p < 4; ++p)
      for (const double value : to_doubles(DType::BF16, rig.values(p).param)) ASSERT_TRUE(std::isfinite(value));
    if (first.empty()) first = all_values(rig);
    for (uint32_t p = 0; p < rig.size(); ++p) expect_same(rig.values(p), first[p], fmt::format("parameter {}", p));
  }
}

std::string gram_rule(const char* attributes) {
  return fmt::format(
      "// stepfuse-ir v1\nrecipe @gram(%p: f32[R,C] param, %g: f32[R,C] grad, %s: f32[R,R] state \"s\") {{\n"
      "  %m = matmul %g, %g {{{}}} : f32\n  %q = axpy 0.5, %g, %p : f32\n  return %q -> %p, %m -> %s\n}}\n",
      attributes);
}

/// Emerging-Optimizers pull request 47: a symmetric product mirrored wrongly on some architectures, in silence. Here
/// each is a full product, with both triangles the same bits.
TEST_F(DeviceCases, A15_ASymmetricProductHasEqualTrianglesAtOddSizes) {
  constexpr size_t kRows = 129, kCols = 257;
  for (const DType type : {DType::F32, DType::BF16}) {
    std::vector<RigParameter> parameters(1);
    parameters[0].spec = {{kRows, kCols}, type, type, DType::F32};
    std::string rule = gram_rule("tb, sym");
    if (type == DType::BF16)
      for (const char* input : {"%p: f32", "%g: f32"})
        rule.replace(rule.find(input), std::string_view(input).size(), std::string(input).substr(0, 4) + "bf16");
    if (type == DType::BF16) rule.replace(rule.find("%p : f32"), 8, "%p : bf16");
    Rig cuda({{rule, {}}}, parameters, {ir::Mode::Default, "cuda", {}, {}});
    Rig exact({{rule, {}}}, parameters, {ir::Mode::Default, "interp", {}, {}});
    cuda.step();
    exact.step();
    const auto gram = to_doubles(DType::F32, cuda.values(0).states.at(0));
    const auto want = to_doubles(DType::F32, exact.values(0).states.at(0));
    for (size_t i = 0; i < kRows; ++i)
      for (size_t j = 0; j < kRows; ++j) {
        ASSERT_EQ(gram[i * kRows + j], gram[j * kRows + i]) << i << ", " << j;
        ASSERT_NEAR(gram[i * kRows + j], want[i * kRows + j], 1e-5 * kCols) << i << ", " << j;
      }
  }
}

/// pytorch pull request 96106: a step that a parameter skips does not count. AdamW's numbers for the gradients
/// 0.5, none, -0.25, and for none, 0.5.
TEST_F(DeviceCases, B03_ASkippedStepDoesNotCount) {
  const auto value_after = [](const std::vector<double>& gradients) {
    std::vector<RigParameter> parameters(2);
    for (RigParameter& parameter : parameters) parameter.spec.shape = {1};
    Rig rig({{"adamw", {{"lr", "1e-3"}, {"weight_decay", "0"}}}}, parameters, {});
    const auto memory = value_of(runtime::DeviceMemory::create(rig.device(), 512, "a test"));
    const float one = 1;
    check(rig.device().write(memory.get(), &one, 4));
    int64_t taken = 0;
    for (const double gradient : gradients) {
      const auto g = static_cast<float>(gradient);
      check(rig.device().write(memory.get() + 256, &g, 4));
      check(rig.optimizer().bind(0, memory.get(), std::isfinite(gradient) ? memory.get() + 256 : nullptr));
      rig.step();
      taken += std::isfinite(gradient) ? 1 : 0;
    }
    EXPECT_EQ(value_of(rig.optimizer().steps(0)), taken);
    float value = 0;
    check(rig.device().read(&value, memory.get(), 4));
    rig.bind(0);
    return value;
  };
  EXPECT_NEAR(value_after({INFINITY, 0.5}), 0.999, 1e-7);
  EXPECT_NEAR(value_after({0.5, INFINITY, -0.25}), 0.998733663, 1e-7);
}

/// pytorch pull request 115435: contraction and inexact division. Strict has the interpreter's bits, default is within
/// two units of each operation; subnormal numbers are not flushed.
TEST_F(DeviceCases, E13_StrictIsTheUnfusedStepAndDefaultIsWithinTwoUlp) {
  const AdamWData before = random_adamw();
  const AdamWData typed = adamw_step(before, "interp", ir::Mode::Strict);
  const AdamWData strict = adamw_step(before, "cuda", ir::Mode::Strict);
  EXPECT_TRUE(strict.p == typed.p && strict.m == typed.m && strict.v == typed.v);
  const AdamWData unfused = adamw_step(before, "cuda", ir::Mode::Strict, {"fuse", "cast_sink", "reuse_memory"});
  EXPECT_TRUE(unfused.p == typed.p && unfused.m == typed.m && unfused.v == typed.v);
  expect_within_two_ulp(before, adamw_step(before, "cuda", ir::Mode::Default), typed);
}

TEST_F(DeviceCases, E13_SubnormalNumbersAreNotFlushed) {
  constexpr float kTiny = 1e-42F;
  for (const ir::Mode mode : {ir::Mode::Strict, ir::Mode::Default}) {
    std::vector<RigParameter> parameters(1);
    parameters[0].spec.shape = {5000};
    Rig rig({{"sgd", {{"lr", "1"}, {"momentum", "0.5"}}}}, parameters, {mode, "cuda", {}, {}});
    const Bytes zero = from_doubles(DType::F32, std::vector<double>(5000, 0));
    const Bytes tiny = from_doubles(DType::F32, std::vector<double>(5000, static_cast<double>(kTiny)));
    rig.write(0, zero, tiny);
    rig.step();
    for (const double value : to_doubles(DType::F32, rig.values(0).param))
      ASSERT_EQ(value, -static_cast<double>(kTiny));
    EXPECT_TRUE(rig.values(0).states.at(0) == tiny);
  }
}

/// TransformerEngine pull request 845, pytorch 122106: products on views that start anywhere.
TEST_F(DeviceCases, E06_ProductsOfTensorsThatStartAtAnyElement) {
  const std::string rule =
      "// stepfuse-ir v1\nrecipe @product(%p: bf16[R,C] param, %g: bf16[R,C] grad, %s: f32[R,R] state \"s\") {\n"
      "  %m = matmul %g, %p {tb} : f32\n  %q = neg %p : bf16\n  return %q -> %p, %m -> %s\n}\n";
  for (const auto& shape : {std::vector<int64_t>{131, 249}, {505, 131}, {1, 8}, {16, 24}}) {
    std::vector<RigParameter> parameters;
    for (const int64_t shift : {0, 1, 8, 3}) {
      parameters.emplace_back().spec = {shape, DType::BF16, DType::BF16, DType::F32};
      parameters.back().shift = shift;
    }
    Rig cuda({{rule, {}}}, parameters, {ir::Mode::Default, "cuda", {}, {}});
    Rig exact({{rule, {}}}, parameters, {ir::Mode::Default, "interp", {}, {}});
    cuda.step();
    exact.step();
    for (uint32_t p = 0; p < cuda.size(); ++p) {
      const auto got = to_doubles(DType::F32, cuda.values(p).states.at(0));
      const auto want = to_doubles(DType::F32, exact.values(p).states.at(0));
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 1e-5 * static_cast<double>(shape[1])) << "shift of parameter " << p << ", " << i;
    }
    cuda.expect_gaps_untouched();
  }
}

/// The workspace of products is poison, C is not read where there is none: both at the odd sizes of the case.
TEST_F(DeviceCases, E01_ScratchThatNobodyWroteIsNotRead) {
  std::vector<RigParameter> parameters(3);
  for (RigParameter& parameter : parameters) parameter.spec.shape = {129, 65};
  for (const char* type : {"bf16", "f32"}) {
    Rig rig({{"muon", {{"ns_dtype", type}}}}, parameters, {ir::Mode::Default, "cuda", {}, {}});
    rig.step(2);
    for (uint32_t p = 0; p < 3; ++p)
      for (const double value : to_doubles(DType::F32, rig.values(p).param)) ASSERT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace stepfuse::tests
