// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernel_samples.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace stepfuse::test {
namespace {

using codegen::KernelSpec;
using codegen::Scheme;
using ir::DType;
using ir::Op;

TEST(KernelPrint_Text, IsExactAndComplete) {
  KernelSpec spec = op_spec(Op::Axpy, DType::BF16, Scheme::Rows, false, true);
  spec.instrs[0].operands[0] = constant(0.1);
  spec.reductions = {{"norm", Op::Norm, DType::F64, instr(0)}};
  EXPECT_EQ(print(spec),
            "kernel \"stepfuse_test\" rows strided strict scalars 1\n"
            "  arg a0 \"in\": bf16 [012] read\n"
            "  arg a1 \"in\": bf16 [012] read\n"
            "  arg a2 \"out\": bf16 [012] write\n"
            "  v0 \"r\" = axpy 0x1.999999999999ap-4 /* 0.1 */, a1, s0 : bf16 math f32 [012]\n"
            "  partial 0 \"norm\" = norm v0 : math f64 result f32\n"
            "  store v0 -> a2\n");
}

TEST(KernelPrint_Text, TellsEveryDifference) {
  const KernelSpec base = broadcast_spec(Scheme::Linear);
  std::vector<KernelSpec> variants(15, base);
  variants[0].name += "2";
  variants[1].scheme = Scheme::Rows;
  variants[2].contiguous = true;
  variants[3].mode = ir::Mode::Default;
  variants[4].num_scalars = 2;
  variants[5].args[0].dtype = DType::F64;
  variants[6].args[0].varies[0] = false;
  variants[7].args[0].written = true;
  variants[8].instrs[0].op = Op::Sub;
  variants[9].instrs[0].math = DType::F64;
  variants[10].reductions[3].value = constant(std::nextafter(1.5, 2.0));
  variants[11].reductions[0].math = DType::F64;
  variants[12].stores.pop_back();
  variants[13].instrs[0].operands[1] = constant(-0.0);
  variants[14].reductions[0].result = DType::BF16;
  std::set<std::string> texts{print(base)};
  for (const KernelSpec& spec : variants) EXPECT_TRUE(texts.insert(print(spec)).second) << print(spec);
}

}  // namespace
}  // namespace stepfuse::test
