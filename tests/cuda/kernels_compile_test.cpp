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

/// Streams of the kernel, and accesses that each takes: those of an aligned text are as wide as they can be.
struct Streams {
  int loads = 0, stores = 0;
};
Streams widest_accesses(const KernelSpec& spec) {
  const codegen::CudaGeometry g = codegen::cuda_geometry(spec, {.aligned = true});
  Streams streams;
  for (const codegen::KernelArg& arg : spec.args) {
    const auto bytes = static_cast<int>(g.vector) * static_cast<int>(ir::dtype_bytes(arg.dtype));
    if (codegen::cuda_level(spec, arg.varies) != codegen::CudaLevel::Element || bytes % 16 != 0) continue;
    const int accesses = bytes / 16 * static_cast<int>(g.batch);
    streams.loads += arg.read ? accesses : 0;
    streams.stores += arg.written ? accesses : 0;
  }
  return streams;
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
    const auto of_16 = [](const std::map<int, int>& by_bytes) {
      const auto it = by_bytes.find(16);
      return it == by_bytes.end() ? 0 : it->second;
    };
    const Streams want = widest_accesses(text.spec);
    EXPECT_GE(of_16(counts.loads), want.loads) << arch.name() << "\n" << text.source;
    EXPECT_GE(of_16(counts.stores), want.stores) << arch.name() << "\n" << text.source;
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
