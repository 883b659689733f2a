// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/version.h"
#include "runtime/cpu/jit.h"

#include <cstring>

namespace stepfuse::runtime {

namespace {

/// Its objects are cut short, which is the library's own fault as far as the library can tell.
class BrokenCompiler final : public CpuCompiler {
 public:
  Result<CompiledKernel> compile(const CompileRequest& request) const override {
    CompiledKernel kernel;
    kernel.object.resize(100);
    if (request.want_llvm_ir) kernel.llvm_ir = "; nothing\n";
    return kernel;
  }
  std::string version() const override { return "broken compiler"; }
};

}  // namespace

}  // namespace stepfuse::runtime

extern "C" __attribute__((visibility("default"))) const stepfuse::runtime::CpuCompiler* stepfuse_cpu_plugin_v2(
    const char* build_id) {
  if (std::strcmp(build_id, stepfuse::kGitDescribe) != 0) return nullptr;
  static const stepfuse::runtime::BrokenCompiler compiler;
  return &compiler;
}
