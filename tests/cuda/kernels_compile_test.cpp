// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Every kernel of every recipe, compiled by the real NVRTC for every architecture it knows: registers, spills, and how
// wide memory is read and written.
#include "codegen/cuda/emit_cuda.h"
#include "codegen/cuda/level.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/cuda/ptx_counts.h"
#include "tests/support/recipe_kernels.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using codegen::CudaVariant;
using codegen::KernelSpec;

struct Text {
  KernelSpec spec;
  CudaVariant variant;
  std::string source;
};

/// Both variants of each kernel; kernels that differ in names alone, or in a mode that changes nothing, once.
std::vector<Text> all_texts() {
  std::vector<Text> texts;
  std::set<std::string> seen;
  for (const ir::Mode mode : {ir::Mode::Strict, ir::Mode::Default}) {
    for (const KernelSpec& spec : test::recipe_kernels(mode)) {
      if (!seen.insert(codegen::identity(spec)).second) continue;
      for (const bool aligned : {false, true})
        texts.push_back({spec, {aligned}, codegen::emit_cuda(spec, {aligned}).value()});
    }
  }
  return texts;
}

/// Bytes of one access to an aligned stream, at least. f64 takes a register pair per element. 16-bit streams beside f64
/// sums or long arithmetic move half of 16 bytes: eight of their elements at a time spill on sm_80 (36 bytes and more).
int least_bytes(const KernelSpec& spec, const codegen::KernelArg& arg) {
  constexpr size_t kShort = 8;
  const auto element = static_cast<int>(ir::dtype_bytes(arg.dtype));
  const bool f64 = std::any_of(spec.instrs.begin(), spec.instrs.end(),
                               [](const codegen::Instr& instr) { return instr.math == ir::DType::F64; });
  if (f64) return element;
  return element == 2 && (!spec.reductions.empty() || spec.instrs.size() > kShort) ? 8 : 16;
}

/// Streams of an aligned text that must be read, or written, by accesses of so many bytes.
std::map<int, int> least_accesses(const KernelSpec& spec, bool codegen::KernelArg::* used) {
  std::map<int, int> accesses;
  for (const codegen::KernelArg& arg : spec.args)
    if (arg.*used && codegen::cuda_level(spec, arg.varies) == codegen::CudaLevel::Element)
      ++accesses[least_bytes(spec, arg)];
  return accesses;
}

class KernelsCompile : public testing::Test {
 protected:
  void SetUp() override {
    const auto opened = Nvrtc::open(Settings::resolve({}, Settings::process_environment()).value());
    if (!opened) GTEST_SKIP() << opened.error().message;
    nvrtc_ = *opened;
  }

  void expect_within_budget(const Text& text, const CudaArch& arch) {
    const auto binary = nvrtc_->compile(text.source, text.spec.name, codegen::nvrtc_options(text.spec.mode), arch);
    ASSERT_TRUE(binary) << binary.error().message << "\n" << text.source;
    ASSERT_TRUE(binary->usage) << binary->log;
    EXPECT_LE(binary->usage->registers, static_cast<int>(codegen::kCudaMaxRegisters)) << arch.name() << "\n"
                                                                                      << text.source;
    EXPECT_EQ(binary->usage->spill_bytes, 0) << arch.name() << "\n" << text.source;
    if (text.variant.aligned) expect_wide(text, binary->ptx, arch);
  }

  static void expect_wide(const Text& text, const std::string& ptx, const CudaArch& arch) {
    const PtxCounts counts = count_accesses(ptx);
    const auto expect = [&](const std::map<int, int>& found, const std::map<int, int>& wanted, const char* what) {
      for (const auto& [bytes, count] : wanted) {
        // Wider ones will do.
        int seen = 0;
        for (auto it = found.lower_bound(bytes); it != found.end(); ++it) seen += it->second;
        EXPECT_GE(seen, count) << what << " of " << bytes << " bytes, " << arch.name() << "\n" << text.source;
      }
    };
    expect(counts.loads, least_accesses(text.spec, &codegen::KernelArg::read), "loads");
    expect(counts.stores, least_accesses(text.spec, &codegen::KernelArg::written), "stores");
  }

  const Nvrtc* nvrtc_ = nullptr;
};

/// Each text for one architecture, and each architecture for texts of every kind: the whole product takes minutes, and
/// ALL_ARCHITECTURES=1 runs it.
TEST_F(KernelsCompile, ForEveryArchitectureWithoutSpills) {
  const bool everything = std::getenv("ALL_ARCHITECTURES") != nullptr;
  const std::vector<Text> texts = all_texts();
  const auto archs = nvrtc_->supported_archs();
  ASSERT_FALSE(archs.empty());
  const auto compile_some = [&](size_t worker, size_t workers) {
    for (size_t i = worker; i < texts.size(); i += workers) {
      for (size_t a = 0; a < archs.size(); ++a) {
        if (!everything && a != i / 2 % archs.size()) continue;
        expect_within_budget(texts[i], parse_cuda_arch(fmt::format("sm_{}", archs[a])).value());
      }
    }
  };
  std::thread other(compile_some, 1, 2);
  compile_some(0, 2);
  other.join();
}

}  // namespace
}  // namespace stepfuse::runtime
