// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"
#include "ir/support/status.h"
#include "runtime/cpu/cpu_features.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// What the compiler plugin produces for one KernelSpec.
struct CompiledKernel {
  std::vector<std::byte> object;  // a relocatable ELF object with one global function, spec.name
  std::string llvm_ir;            // after optimisation, when asked for
  std::string assembly;           // when asked for
};

/// LLVM IR of a person's making in place of what would be generated; compiled as it stands, without our passes.
struct LlvmIrOverride {
  std::string file;  // for messages
  std::string text;  // empty: none
};

struct CompileRequest {
  const codegen::KernelSpec* spec;
  CpuTarget target;
  bool want_llvm_ir = false;
  bool want_assembly = false;
  LlvmIrOverride replacement = {};
};

/// The plugin's interface. It lives in stepfuse_cpu_plugin.so, which holds all of LLVM and is opened when the first
/// kernel must be compiled. compile() may be called from several threads at once. What is wrong with a replacement is
/// InvalidData and names its file and line.
class CpuCompiler {
 public:
  virtual ~CpuCompiler() = default;
  virtual Result<CompiledKernel> compile(const CompileRequest& request) const = 0;
  virtual std::string version() const = 0;  // "LLVM 19.1.7"
};

/// The one extern "C" symbol of the plugin. Versioned by name: a plugin of another build is refused.
inline constexpr const char* kCpuPluginEntry = "stepfuse_cpu_plugin_v2";
using CpuPluginEntry = const CpuCompiler* (*)(const char* build_id);

/// The file that cpu_compiler() opens: in `plugin_dir`, else, if that is empty, beside the library that asks
/// (../lib/stepfuse,
/// ./stepfuse). Opens nothing.
Result<std::filesystem::path> cpu_plugin_file(std::string_view plugin_dir);

/// Opens the plugin once per process; a folder that differs from the first call's changes nothing then. Context's
/// setting `plugin_dir` is what to pass.
Result<const CpuCompiler*> cpu_compiler(std::string_view plugin_dir);

}  // namespace stepfuse::runtime
