// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Generated CUDA kernels against the CPU backend, bit for bit: one definition, two code generators. The PTX comes from
// NVRTC, for an architecture of each of its two generators.
#include "tests/support/recipe_kernels.h"
#include "tests/unit/compile_kernel.h"
#include "tests/unit/kernel_samples.h"
#include "tests/vgpu/kernel_run.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::test {
namespace {

using codegen::CudaVariant;
using codegen::KernelSpec;
using codegen::Scheme;
using ir::DType;
using ir::Op;

using Dims = std::array<int64_t, 3>;

class CudaKernels : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = why_no_nvrtc();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
  }

  /// Numbers in place of the awkward values, one of which makes every sum NaN.
  static void tame(Member& member, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (Buffer& buffer : member.launch.args)
      for (int64_t i = 0; i < buffer.size(); ++i)
        buffer.set(i, buffer.dtype() == DType::Bool ? static_cast<double>(random() % 2) : normal(random));
  }

  /// One launch over members of these extents; member 1 is skipped when there are several. Odd seeds give sums that say
  /// something, even ones awkward values.
  void expect_equal(DeviceKernel& kernel, const runtime::LoadedKernel& cpu, const KernelSpec& spec,
                    const std::vector<Dims>& dims, uint64_t seed, int64_t shift) {
    std::vector<Member> members;
    for (size_t m = 0; m < dims.size(); ++m) {
      members.push_back(make_member(spec, dims[m], seed + m));
      if (seed % 2 == 1) tame(members.back(), seed + m);
      members.back().skip = m == 1;
    }
    std::vector<Member> want = members;
    for (Member& member : want) run_on_cpu(cpu, spec, member);
    kernel.run(members, seed, shift);
    for (size_t m = 0; m < members.size(); ++m) {
      EXPECT_EQ(difference(members[m], want[m]), "")
          << "member " << m << " " << dims[m][0] << "x" << dims[m][1] << "x" << dims[m][2] << " seed " << seed
          << (shift == 0 ? "" : " shifted") << "\n"
          << print(spec);
    }
  }

  /// `aligned` dims fit the aligned text; the generic one runs over `odd` ones, with shifted arguments. Each text is
  /// compiled by one of the two generators, in turns.
  void check(const KernelSpec& spec, const std::vector<Dims>& aligned, const std::vector<Dims>& odd) {
    const auto cpu = compile_and_load(spec, cpu_target_named("cpu"));
    ASSERT_NE(cpu, nullptr);
    turn_ = !turn_;
    DeviceKernel vectors(spec, {.aligned = true}, turn_ ? "compute_90" : "compute_120");
    DeviceKernel elements(spec, {.aligned = false}, turn_ ? "compute_120" : "compute_90");
    uint64_t seed = 1;
    for (const Dims& dims : aligned) expect_equal(vectors, *cpu, spec, {dims}, ++seed, 0);
    for (const Dims& dims : odd) expect_equal(elements, *cpu, spec, {dims}, ++seed, 1);
    for (const uint64_t order : {11U, 12U}) {
      expect_equal(vectors, *cpu, spec, aligned, order, 0);
      expect_equal(elements, *cpu, spec, odd, order, 1);
    }
  }

 private:
  bool turn_ = false;
};

const std::vector<Dims> kVectors{{1, 1, 1},    {1, 1, 3},    {1, 1, 255},   {1, 1, 4095},
                                 {1, 1, 4096}, {1, 1, 4097}, {1, 1, 20001}, {1, 1, 0}};
const std::vector<Dims> kMatrices{{1, 64, 64},  {3, 64, 100}, {1, 1, 8},  {2, 96, 128},
                                  {1, 8, 4096}, {5, 8, 8},    {1, 0, 64}, {1, 333, 41}};
const std::vector<Dims> kOddMatrices{{1, 63, 65},  {3, 61, 71}, {1, 1, 1}, {2, 1, 4097},
                                     {1, 7, 4095}, {4, 3, 5},   {1, 5, 0}};

std::vector<KernelSpec> kernels_named(const std::vector<KernelSpec>& kernels, const std::string& part) {
  std::vector<KernelSpec> found;
  std::copy_if(kernels.begin(), kernels.end(), std::back_inserter(found),
               [&](const KernelSpec& spec) { return spec.name.find(part) != std::string::npos; });
  EXPECT_THAT(found, testing::Not(testing::IsEmpty())) << part;
  return found;
}

bool walks_vectors(const KernelSpec& spec) {
  return std::none_of(spec.args.begin(), spec.args.end(),
                      [](const codegen::KernelArg& arg) { return arg.varies[0] || arg.varies[1]; });
}

/// Contiguous arguments cover the whole domain: along what they do not vary, it has one element.
std::vector<Dims> fitting(const KernelSpec& spec, std::vector<Dims> all) {
  for (Dims& dims : all)
    for (const codegen::KernelArg& arg : spec.args)
      for (size_t d = 0; d < 3; ++d)
        if (spec.contiguous && (arg.varies[1] || arg.varies[2]) && !arg.varies[d]) dims[d] = 1;
  return all;
}

class RecipeKernels : public CudaKernels, public testing::WithParamInterface<const char*> {};

TEST_P(RecipeKernels, GiveTheBitsOfTheCpu) {
  for (const KernelSpec& spec : kernels_named(recipe_kernels(ir::Mode::Strict), GetParam())) {
    if (walks_vectors(spec)) {
      check(spec, kVectors, kVectors);
    } else {
      check(spec, fitting(spec, kMatrices), fitting(spec, kOddMatrices));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecipeKernels,
                         testing::Values("_adamw_", "_adam_", "_sgd_", "_muon_pre", "_muon_mid", "_muon_post"));

/// Broadcasts along each dimension, values and stores of every level, four reductions at once.
TEST_F(CudaKernels, BroadcastsOfEverySchemeGiveTheBitsOfTheCpu) {
  const std::vector<Dims> aligned{{1, 1, 8}, {2, 3, 64}, {3, 40, 128}, {1, 3, 8200}, {2, 4100, 8}};
  const std::vector<Dims> odd{{1, 1, 1}, {2, 3, 65}, {3, 41, 33}, {1, 3, 8201}, {2, 4097, 3}, {1, 0, 7}, {2, 9000, 35}};
  for (const Scheme scheme : {Scheme::Linear, Scheme::Rows, Scheme::Cols}) check(broadcast_spec(scheme), aligned, odd);
}

/// Every op in every element type, with each of the reductions.
TEST_F(CudaKernels, EveryOpGivesTheBitsOfTheCpu) {
  for (const Op op : elementwise_ops()) {
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
      for (const bool with_scalar : {false, true}) {
        KernelSpec spec = op_spec(op, dtype, Scheme::Linear, true, with_scalar);
        spec.reductions = {{"sum", Op::Sum, ir::math_dtype(dtype), instr(0), dtype},
                           {"peak", Op::Amax, ir::math_dtype(dtype), instr(0), dtype},
                           {"any", Op::Any, DType::F32, instr(0), DType::Bool},
                           {"norm", Op::Norm, DType::F64, instr(0), DType::F32}};
        const auto cpu = compile_and_load(spec, cpu_target_named("cpu"));
        ASSERT_NE(cpu, nullptr);
        DeviceKernel kernel(spec, {.aligned = with_scalar}, with_scalar ? "compute_90" : "compute_120");
        expect_equal(kernel, *cpu, spec, {{1, 1, 4096 + 264}}, 5, 0);
      }
    }
  }
}

/// Numbers a little beside the middle between two of 16 bits: rounded to f32 first, they would lie in the middle.
TEST_F(CudaKernels, F64IsRoundedOnceTo16Bits) {
  KernelSpec spec = strict_spec(Scheme::Linear, true);
  spec.args = {input(DType::F64), output(DType::BF16), output(DType::F16)};
  spec.stores = {{arg(0), 1}, {arg(0), 2}};
  std::vector<Member> members{make_member(spec, {1, 1, 2048}, 1)};
  Launch& launch = members.front().launch;
  for (int64_t i = 0; i < 2048; ++i) {
    const double middle = 1 + static_cast<double>(i % 512 * 2 + 1) * (i < 1024 ? 0x1p-8 : 0x1p-11);
    launch.args[0].set(i, i / 512 % 2 == 0 ? middle + 0x1p-40 : middle - 0x1p-40);
  }
  std::vector<Buffer> want{Buffer(DType::BF16, 2048), Buffer(DType::F16, 2048)};
  for (int64_t i = 0; i < 2048; ++i)
    for (Buffer& buffer : want) buffer.set(i, launch.args[0].get(i));
  DeviceKernel(spec, {.aligned = true}, "compute_90").run(members, 1);
  for (size_t k = 0; k < want.size(); ++k)
    for (int64_t i = 0; i < 2048; ++i)
      ASSERT_EQ(launch.args[k + 1].get(i), want[k].get(i)) << ir::dtype_name(want[k].dtype()) << " " << i;
}

/// More partials than a block adds at a time.
TEST_F(CudaKernels, ManyPartialsAreAddedInTheirOrder) {
  KernelSpec spec = strict_spec(Scheme::Linear, true);
  spec.args = {input(DType::F32, {false, true, true})};
  spec.reductions = {{"sum", Op::Sum, DType::F32, arg(0), DType::F32},
                     {"norm", Op::Norm, DType::F64, arg(0), DType::F64}};
  const auto cpu = compile_and_load(spec, cpu_target_named("cpu"));
  ASSERT_NE(cpu, nullptr);
  DeviceKernel kernel(spec, {.aligned = true}, "compute_90");
  for (const int64_t chunks : {2, 3, 7, 8, 9, 255, 257, 2049})
    expect_equal(kernel, *cpu, spec, {{1, chunks, codegen::kChunk}}, 3, 0);
}

}  // namespace
}  // namespace stepfuse::test
