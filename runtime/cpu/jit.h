// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"
#include "ir/support/status.h"
#include "runtime/cpu/cpu_features.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// What the compiler plugin produces for one KernelSpec.
struct CompiledKernel {
  std::vector<std::byte> object;  // a relocatable ELF object with one global function, spec.name
  std::string llvm_ir;            // after optimisation, when asked for
  std::string assembly;           // when asked for
};

struct CompileRequest {
  const codegen::KernelSpec* spec;
  CpuTarget target;
  bool want_llvm_ir = false;
  bool want_assembly = false;
};

/// A loaded kernel. The code stays mapped as long as the object lives.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  virtual codegen::KernelFn function() const = 0;
};

/// The plugin's interface. It lives in stepfuse_cpu_plugin.so, which holds all of LLVM and is opened when the first
/// kernel must be compiled: STEPFUSE_PLUGIN_DIR, else beside the library that asks (../lib/stepfuse, ./stepfuse), else
/// the build's own folder. compile() may be called from several threads at once.
class CpuCompiler {
 public:
  virtual ~CpuCompiler() = default;
  virtual Result<CompiledKernel> compile(const CompileRequest& request) const = 0;
  virtual Result<std::unique_ptr<LoadedKernel>> load(const CompiledKernel& kernel, const std::string& symbol) const = 0;
  virtual std::string version() const = 0;  // "LLVM 19.1.7"
};

/// The one extern "C" symbol of the plugin. Versioned by name: a plugin of another build is refused.
inline constexpr const char* kCpuPluginEntry = "stepfuse_cpu_plugin_v1";
using CpuPluginEntry = const CpuCompiler* (*)(const char* build_id);

/// Opens the plugin once per process.
Result<const CpuCompiler*> cpu_compiler();

}  // namespace stepfuse::runtime
