// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/compile_kernel.h"
#include "tests/unit/kernel_model.h"
#include "tests/unit/kernel_samples.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <thread>

#include <elf.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using codegen::KernelSpec;
using codegen::Scheme;
using codegen::Varies;
using ir::DType;
using ir::Op;
using namespace test;  // NOLINT: builders of specs

constexpr std::array<int64_t, 10> kSizes{0, 1, 7, 63, 64, 65, 4095, 4096, 4097, 10000};

/// The levels that this machine can run.
std::vector<CpuTarget> runnable_targets() {
  std::vector<CpuTarget> out;
  for (const char* name : {"cpu", "x86-64-v3", "x86-64-v4"}) {
    if (check_runs_here(cpu_target_named(name))) out.push_back(cpu_target_named(name));
  }
  return out;
}

Result<CompiledKernel> try_compile(const KernelSpec& spec, const CpuTarget& cpu) {
  return cpu_plugin().compile({&spec, cpu});
}

/// Runs kernel and model on equal data.
void expect_model(const LoadedKernel& kernel, const KernelSpec& spec, const Launch& launch, int64_t task = 1) {
  Launch got = launch;
  Launch want = launch;
  run_kernel(kernel.function(), spec, got, task);
  run_model(spec, want);
  EXPECT_EQ(difference(got, want), "") << fmt::format("{} x {} x {}\n", launch.dims[0], launch.dims[1], launch.dims[2])
                                       << print(spec);
}

std::string test_name(std::string_view text) {
  std::string out;
  for (const char c : text) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return out;
}

// ---- every op, type and scheme ----

class EveryOp : public testing::TestWithParam<Op> {};

TEST_P(EveryOp, ContiguousMatchesTheModelOnEveryLevel) {
  for (const CpuTarget& cpu : runnable_targets()) {
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
      for (const bool with_scalar : {false, true}) {
        const KernelSpec spec = op_spec(GetParam(), dtype, Scheme::Linear, true, with_scalar);
        const auto kernel = compile_and_load(spec, cpu);
        ASSERT_NE(kernel, nullptr);
        for (const int64_t n : kSizes) expect_model(*kernel, spec, make_launch(spec, {1, 1, n}, 7), 2);
      }
    }
  }
}

TEST_P(EveryOp, OtherSchemesMatchTheModel) {
  const CpuTarget cpu = cpu_target_named("cpu");
  for (const Scheme scheme : {Scheme::Linear, Scheme::Rows, Scheme::Cols}) {
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
      const KernelSpec spec = op_spec(GetParam(), dtype, scheme, false, false);
      const auto kernel = compile_and_load(spec, cpu);
      ASSERT_NE(kernel, nullptr);
      for (const int64_t n : kSizes) expect_model(*kernel, spec, make_launch(spec, {1, 1, n}, 7), 8192);
      expect_model(*kernel, spec, make_launch(spec, {2, 67, 131}, 7), 3);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryOp, testing::ValuesIn(elementwise_ops()),
                         [](const auto& param_info) { return test_name(ir::op_info(param_info.param).mnemonic); });

// ---- conversions ----

/// Every pair of types, in one rounding: an f64 must not reach 16 bits by way of f32.
TEST(EmitLlvm_Cast, RoundsOnceBetweenAllTypes) {
  constexpr std::array kTypes{DType::F64, DType::F32, DType::F16, DType::BF16, DType::Bool};
  for (const CpuTarget& cpu : runnable_targets()) {
    for (const DType from : kTypes) {
      for (const DType to : kTypes) {
        KernelSpec spec = strict_spec(Scheme::Linear, true);
        const DType math = from == DType::F64 || to == DType::F64 ? DType::F64 : DType::F32;
        spec.args = {input(from), output(to)};
        spec.instrs = {{"r", Op::Cast, to, math, kAll, {arg(0)}}};
        spec.stores = {{instr(0), 1}};
        const auto kernel = compile_and_load(spec, cpu);
        ASSERT_NE(kernel, nullptr);
        Launch launch = make_launch(spec, {1, 1, 20001}, 3);
        for (int64_t i = 0; i < 20001 && from != DType::Bool; i += 2) {
          // Halfway between 16-bit neighbours, give or take bits that f32 cannot hold.
          const double half =
              std::ldexp(1.0 + std::ldexp(static_cast<double>(i), -12), static_cast<int>(i % 300) - 150);
          launch.args[0].set(i, half * (1.0 + std::ldexp(static_cast<double>(i % 3) - 1.0, -40)));
        }
        expect_model(*kernel, spec, launch, 1);
      }
    }
  }
}

TEST(EmitLlvm_Cast, EveryF32PatternOfTheTopBitsRoundsToBf16) {
  KernelSpec spec = strict_spec(Scheme::Linear, true);
  spec.args = {input(DType::F32), output(DType::BF16)};
  spec.stores = {{arg(0), 1}};  // a store rounds too
  const auto kernel = compile_and_load(spec, cpu_target_named("cpu"));
  ASSERT_NE(kernel, nullptr);
  constexpr std::array<uint32_t, 5> kLow{0, 1, 0x7fff, 0x8000, 0x8001};
  constexpr int64_t kCount = int64_t{65536} * kLow.size();
  Launch launch = make_launch(spec, {1, 1, kCount}, 1);
  auto* bits = static_cast<uint32_t*>(launch.args[0].data());
  for (uint32_t i = 0; i < kCount; ++i) bits[i] = (i % 65536) << 16 | kLow[i / 65536];
  expect_model(*kernel, spec, launch, 5);
}

TEST(EmitLlvm_Scalars, ConditionsAreNotRoundedAndNumbersAreRoundedOnce) {
  KernelSpec spec = strict_spec(Scheme::Linear, true);
  spec.num_scalars = 2;
  spec.args = {input(DType::F32), output(DType::F32), output(DType::BF16)};
  spec.instrs = {{"r", Op::Select, DType::F32, DType::F32, kAll, {scalar(0), arg(0), scalar(1)}},
                 {"c", Op::Mul, DType::F32, DType::F32, kAll, {arg(0), constant(0.1)}}};
  spec.stores = {{instr(0), 1}, {scalar(1), 2}};
  const auto kernel = compile_and_load(spec, cpu_target_named("cpu"));
  ASSERT_NE(kernel, nullptr);
  for (const double condition : {0.0, -0.0, 1e-300, std::nan("")}) {
    Launch launch = make_launch(spec, {1, 1, 70}, 1);
    launch.scalars = {condition, 1.00390625 + 0x1p-40};  // above the tie of two bf16: rounding to f32 first loses it
    expect_model(*kernel, spec, launch);
  }
}

// ---- reductions ----

KernelSpec reduce_spec(Op op, DType dtype, Scheme scheme, bool contiguous) {
  KernelSpec spec = strict_spec(scheme, contiguous);
  const DType element = op == Op::Any ? DType::Bool : dtype;
  const bool squares = op == Op::SumSq || op == Op::Norm;
  spec.args = {input(element)};
  spec.reductions = {{"sum", op, squares ? DType::F64 : ir::math_dtype(element), arg(0)}};
  return spec;
}

struct ReduceCase {
  Scheme scheme;
  bool contiguous;
  const char* name;
};

class EveryReduction : public testing::TestWithParam<ReduceCase> {};

TEST_P(EveryReduction, IsTheCanonicalSum) {
  for (const CpuTarget& cpu : runnable_targets()) {
    for (const Op op : {Op::Sum, Op::SumSq, Op::Norm, Op::Amax, Op::Any}) {
      for (const DType dtype : {DType::F32, DType::F64, DType::BF16}) {
        const KernelSpec spec = reduce_spec(op, dtype, GetParam().scheme, GetParam().contiguous);
        const auto kernel = compile_and_load(spec, cpu);
        ASSERT_NE(kernel, nullptr);
        for (const auto& dims : {std::array<int64_t, 3>{1, 1, 10000},
                                 {2, 1, 63},
                                 {2, 90, 95},
                                 {1, 9000, 3},
                                 {3, 5, 4097},
                                 {1, 4200, 37},
                                 {1, 0, 5}}) {
          Launch launch = make_launch(spec, dims, 11);
          // One NaN or infinity would hide the order of all the rest; half of the launches are finite.
          for (int64_t i = 0; dims[0] == 1 && i < launch.args[0].size(); ++i) {
            if (!std::isfinite(launch.args[0].get(i))) launch.args[0].set(i, 0.75);
          }
          expect_model(*kernel, spec, launch, 2);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, EveryReduction,
                         testing::Values(ReduceCase{Scheme::Linear, true, "linear"},
                                         ReduceCase{Scheme::Linear, false, "linear_strided"},
                                         ReduceCase{Scheme::Rows, false, "rows"},
                                         ReduceCase{Scheme::Cols, false, "cols"}),
                         [](const auto& param_info) { return param_info.param.name; });

// ---- layouts ----

void make_finite(Launch& launch) {
  for (test::Buffer& buffer : launch.args) {
    for (int64_t i = 0; i < buffer.size(); ++i) {
      if (!(std::fabs(buffer.get(i)) < 1e4)) buffer.set(i, 0.625);
    }
  }
}

class EveryScheme : public testing::TestWithParam<Scheme> {};

TEST_P(EveryScheme, BroadcastsHoistsAndStoresByTheOwner) {
  for (const bool reduce : {true, false}) {
    KernelSpec spec = broadcast_spec(GetParam());
    if (!reduce) spec.reductions.clear();
    for (const CpuTarget& cpu : runnable_targets()) {
      const auto kernel = compile_and_load(spec, cpu);
      ASSERT_NE(kernel, nullptr);
      for (const auto& dims : {std::array<int64_t, 3>{2, 33, 300}, {1, 3, 5000}, {3, 5000, 2}, {1, 1, 1}}) {
        Launch launch = make_launch(spec, dims, 5);
        make_finite(launch);
        expect_model(*kernel, spec, launch, 7);
      }
    }
  }
}

/// Arguments as views: the transposed of one buffer, every second column of another, padded rows, a broadcast unit.
TEST_P(EveryScheme, FollowsStrides) {
  KernelSpec spec = op_spec(Op::Addcdiv, DType::F32, GetParam(), false, false);
  spec.reductions = {{"sum", Op::Sum, DType::F32, instr(0)}};
  const auto kernel = compile_and_load(spec, cpu_target_named("cpu"));
  ASSERT_NE(kernel, nullptr);
  constexpr int64_t kRows = 70;
  constexpr int64_t kCols = 143;
  KernelSpec roomy = spec;
  Launch launch = make_launch(roomy, {2, 2 * kRows, 2 * kCols}, 9);
  make_finite(launch);
  Launch views = make_launch(spec, {2, kRows, kCols}, 9);
  views.args = launch.args;
  views.strides = {{kRows * kCols, 1, kRows},
                   {4 * kRows * kCols, 2 * kCols, 2},
                   {4 * kRows * kCols, 2 * kCols, 1},
                   {0, kCols, 1},
                   {kRows * kCols, 1, kRows}};
  expect_model(*kernel, spec, views, 3);
  // The same with neighbours everywhere, but padded rows: the vector version.
  for (auto& strides : views.strides) strides = {4 * kRows * kCols, 2 * kCols, 1};
  expect_model(*kernel, spec, views, 3);
}

std::string scheme_test_name(const testing::TestParamInfo<Scheme>& info) {
  constexpr std::array kNames{"Linear", "Rows", "Cols"};
  return kNames[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, EveryScheme, testing::Values(Scheme::Linear, Scheme::Rows, Scheme::Cols),
                         scheme_test_name);

TEST(EmitLlvm_Contiguous, HasOneElementPerUnit) {
  const Varies unit{true, false, false};
  KernelSpec spec = strict_spec(Scheme::Linear, true);
  spec.args = {input(DType::F32), input(DType::F32, unit), output(DType::F32), output(DType::F32, unit)};
  spec.instrs = {{"s", Op::Abs, DType::F32, DType::F32, unit, {arg(1)}},
                 {"r", Op::Mul, DType::F32, DType::F32, kAll, {arg(0), instr(0)}}};
  spec.stores = {{instr(1), 2}, {instr(0), 3}};
  spec.reductions = {{"norm", Op::Norm, DType::F64, instr(1)}};
  const auto kernel = compile_and_load(spec, cpu_target_named("cpu"));
  ASSERT_NE(kernel, nullptr);
  expect_model(*kernel, spec, make_launch(spec, {5, 70, 101}, 2), 1);
}

// ---- AdamW ----

Launch adamw_launch(const KernelSpec& spec, int64_t n) {
  Launch launch = make_launch(spec, {1, 1, n}, 21);
  launch.scalars = {1 - 1e-5, 0.1, 0.999, 0.001, -1e-3, 0.0316, 1e-8};
  return launch;
}

TEST(EmitLlvm_AdamW, InPlaceGivesTheModelsBitsOnEveryLevel) {
  const KernelSpec spec = adamw_spec(ir::Mode::Strict);
  for (const CpuTarget& cpu : runnable_targets()) {
    const auto kernel = compile_and_load(spec, cpu);
    ASSERT_NE(kernel, nullptr);
    for (const int64_t n : kSizes) expect_model(*kernel, spec, adamw_launch(spec, n));
  }
}

/// Contraction is LLVM's choice in default mode; it must be the same choice in vectors and in the tail.
TEST(EmitLlvm_AdamW, TailEqualsVectorsInDefaultMode) {
  const KernelSpec spec = adamw_spec(ir::Mode::Default);
  for (const CpuTarget& cpu : runnable_targets()) {
    const auto kernel = compile_and_load(spec, cpu);
    ASSERT_NE(kernel, nullptr);
    Launch whole = adamw_launch(spec, 64);
    Launch single = whole;
    run_kernel(kernel->function(), spec, whole, 1);
    for (int64_t i = 0; i < 64; ++i) {
      Launch one = make_launch(spec, {1, 1, 1}, 1);
      one.scalars = single.scalars;
      for (size_t k = 0; k < 4; ++k) one.args[k].set(0, single.args[k].get(i));
      run_kernel(kernel->function(), spec, one, 1);
      for (size_t k = 0; k < 4; ++k) single.args[k].set(i, one.args[k].get(0));
    }
    EXPECT_EQ(difference(single, whole), "");
  }
}

TEST(EmitLlvm_Vectors, AreExplicitAndAsWideAsTheTarget) {
  const KernelSpec spec = adamw_spec(ir::Mode::Strict);
  const CompiledKernel v3 = compile(spec, cpu_target_named("x86-64-v3"), true);
  const CompiledKernel v4 = compile(spec, cpu_target_named("x86-64-v4"), true);
  EXPECT_NE(v3.llvm_ir.find("<8 x float>"), std::string::npos);
  EXPECT_EQ(v3.llvm_ir.find("<16 x float>"), std::string::npos);
  EXPECT_NE(v4.llvm_ir.find("<16 x float>"), std::string::npos);
  EXPECT_NE(v4.assembly.find("zmm"), std::string::npos);
  EXPECT_EQ(v4.llvm_ir.find(" contract "), std::string::npos) << "strict mode must not contract";
  EXPECT_NE(v4.llvm_ir.find("; kernel \"stepfuse_adamw_f32\""), std::string::npos);
}

/// F01: what the machine does not have must not appear, whatever its CPU is called.
TEST(EmitLlvm_Vectors, UseNoRegistersThatTheTargetLacks) {
  CpuTarget hidden = cpu_target_named("x86-64-v3");
  hidden.name = "cpu";
  for (Op op : {Op::Add, Op::Max, Op::Sign, Op::Cast}) {
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
      const CompiledKernel kernel = compile(op_spec(op, dtype, Scheme::Rows, false, false), hidden, true);
      EXPECT_NE(kernel.assembly.find("ymm"), std::string::npos);
      EXPECT_EQ(kernel.assembly.find("zmm"), std::string::npos);
      EXPECT_EQ(kernel.assembly.find("{%k"), std::string::npos) << "AVX-512 masks";
    }
  }
}

/// F07: no flag may let the optimiser assume that NaN and infinity do not occur.
TEST(EmitLlvm_Finite, SeesEveryNonFiniteValueInBothModes) {
  for (const ir::Mode mode : {ir::Mode::Strict, ir::Mode::Default}) {
    KernelSpec spec = strict_spec(Scheme::Linear, true);
    spec.mode = mode;
    spec.args = {input(DType::F32), output(DType::Bool)};
    spec.instrs = {{"twice", Op::Mul, DType::F32, DType::F32, kAll, {arg(0), constant(2.0)}},
                   {"finite", Op::IsFinite, DType::Bool, DType::F32, kAll, {instr(0)}},
                   {"found", Op::Not, DType::Bool, DType::F32, kAll, {instr(1)}}};
    spec.stores = {{instr(1), 1}};
    spec.reductions = {{"found_inf", Op::Any, DType::F32, instr(2)}};
    for (const CpuTarget& cpu : runnable_targets()) {
      const auto kernel = compile_and_load(spec, cpu);
      ASSERT_NE(kernel, nullptr);
      const std::array<double, 4> values{1.0, std::nan(""), std::numeric_limits<double>::infinity(), 3.4e38};
      for (size_t bad = 0; bad < values.size(); ++bad) {
        Launch launch = make_launch(spec, {1, 1, 33}, 1);
        for (int64_t i = 0; i < 33; ++i) launch.args[0].set(i, i == 17 ? values[bad] : 1.0);
        run_kernel(kernel->function(), spec, launch, 1);
        EXPECT_EQ(launch.args[1].get(17), bad == 0 ? 1.0 : 0.0) << values[bad];
        EXPECT_EQ(launch.partials[0][0], bad == 0 ? 0.0 : 1.0) << values[bad];
      }
    }
  }
}

// ---- the object ----

struct ObjectFacts {
  std::set<std::string> undefined, global, allocated_sections;
};

ObjectFacts inspect(const std::vector<std::byte>& object) {
  ObjectFacts facts;
  const auto* base = reinterpret_cast<const char*>(object.data());
  const auto& header = *reinterpret_cast<const Elf64_Ehdr*>(base);
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(base + header.e_shoff);
  const char* names = base + sections[header.e_shstrndx].sh_offset;
  for (int s = 0; s < header.e_shnum; ++s) {
    const Elf64_Shdr& section = sections[s];
    if ((section.sh_flags & SHF_ALLOC) != 0 && section.sh_size > 0) {
      const std::string name = names + section.sh_name;
      facts.allocated_sections.insert(name.substr(0, name.find('.', 1)));
    }
    if (section.sh_type != SHT_SYMTAB) continue;
    const char* strings = base + sections[section.sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(base + section.sh_offset);
    for (size_t i = 1; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
      const std::string name = strings + symbols[i].st_name;
      if (symbols[i].st_shndx == SHN_UNDEF) facts.undefined.insert(name);
      if (ELF64_ST_BIND(symbols[i].st_info) == STB_GLOBAL) facts.global.insert(name);
    }
  }
  return facts;
}

TEST(EmitLlvm_Object, IsCompleteInItself) {
  for (const char* level : {"x86-64-v3", "x86-64-v4"}) {
    for (const Op op : elementwise_ops()) {
      for (const DType dtype : {DType::F64, DType::BF16, DType::F16}) {
        KernelSpec spec = op_spec(op, dtype, Scheme::Cols, false, true);
        spec.reductions = {{"sum", Op::Sum, ir::math_dtype(dtype), instr(0)}, {"max", Op::Amax, DType::F64, instr(0)}};
        const ObjectFacts facts = inspect(compile(spec, cpu_target_named(level)).object);
        EXPECT_EQ(facts.undefined, std::set<std::string>{}) << level << "\n" << print(spec);
        EXPECT_EQ(facts.global, std::set<std::string>{spec.name});
        for (const std::string& name : facts.allocated_sections)
          EXPECT_TRUE(name == ".text" || name == ".rodata") << name;
      }
    }
  }
}

/// The least x86-64 has neither AVX nor FMA; what default mode compiles for it is just as complete.
TEST(EmitLlvm_Object, IsCompleteOnTheBaselineToo) {
  const CpuTarget baseline = baseline_target();
  ASSERT_EQ(baseline.vector_bytes, 16);
  for (const Op op : {Op::Add, Op::Div, Op::Sqrt, Op::Max, Op::Sign, Op::Select, Op::IsFinite, Op::Cast}) {
    for (const DType dtype : {DType::F64, DType::F32, DType::BF16}) {
      KernelSpec spec = op_spec(op, dtype, Scheme::Rows, false, true);
      spec.mode = ir::Mode::Default;
      spec.reductions = {{"sum", Op::Sum, ir::math_dtype(dtype), instr(0)}};
      EXPECT_EQ(inspect(compile(spec, baseline).object).undefined, std::set<std::string>{}) << print(spec);
    }
  }
}

TEST(EmitLlvm_Object, IsTheSameEveryTimeAndFromEveryThread) {
  const KernelSpec spec = broadcast_spec(Scheme::Rows);
  const std::vector<std::byte> first = compile(spec, cpu_target_named("x86-64-v3")).object;
  std::array<std::vector<std::byte>, 4> objects;
  std::vector<std::thread> threads;
  for (auto& object : objects) {
    threads.emplace_back([&object, &spec] { object = compile(spec, cpu_target_named("x86-64-v3")).object; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& object : objects) EXPECT_EQ(object, first);
}

// ---- what is refused ----

TEST(EmitLlvm_Refuses, StrictAndFmaOpsWithoutFma) {
  CpuTarget old = cpu_target_named("x86-64-v3");
  old.fma = false;
  const auto strict = try_compile(op_spec(Op::Add, DType::F32, Scheme::Linear, true, false), old);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().code, StatusCode::Environment);
  EXPECT_NE(strict.error().message.find("FMA"), std::string::npos);
  KernelSpec lerp = op_spec(Op::Lerp, DType::F32, Scheme::Linear, true, false);
  lerp.mode = ir::Mode::Default;
  EXPECT_FALSE(try_compile(lerp, old));
  KernelSpec plain = op_spec(Op::Add, DType::F32, Scheme::Linear, true, false);
  plain.mode = ir::Mode::Default;
  EXPECT_TRUE(try_compile(plain, old));
}

TEST(EmitLlvm_Refuses, F16WithoutF16c) {
  CpuTarget old = cpu_target_named("x86-64-v3");
  old.f16c = false;
  const auto result = try_compile(op_spec(Op::Add, DType::F16, Scheme::Linear, true, false), old);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, StatusCode::Environment);
  EXPECT_NE(result.error().message.find("F16C"), std::string::npos);
  EXPECT_FALSE(result.error().hint.empty());
}

TEST(EmitLlvm_Refuses, MalformedKernels) {
  const KernelSpec good = op_spec(Op::Add, DType::F32, Scheme::Linear, true, false);
  std::vector<KernelSpec> bad(7, good);
  bad[0].instrs[0].operands[0] = instr(0);
  bad[1].instrs[0].operands[0] = arg(99);
  bad[2].instrs[0].operands.pop_back();
  bad[3].instrs[0].op = Op::Matmul;
  bad[4].stores[0].arg = 0;
  bad[5].instrs[0].varies = kNone;
  bad[6].args[2].varies = kNone;
  for (const KernelSpec& spec : bad) {
    const auto result = try_compile(spec, cpu_target_named("x86-64-v3"));
    ASSERT_FALSE(result) << print(spec);
    EXPECT_EQ(result.error().code, StatusCode::Internal);
  }
}

}  // namespace
}  // namespace stepfuse::runtime
