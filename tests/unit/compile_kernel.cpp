// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/compile_kernel.h"

#include "runtime/context.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace stepfuse::test {

using runtime::CompiledKernel;
using runtime::CpuTarget;

const runtime::CpuCompiler& cpu_plugin() {
  static const auto context = runtime::Context::of_environment().value();
  const auto compiler = runtime::cpu_compiler(context->settings().text("plugin_dir"));
  if (!compiler) throw std::runtime_error(compiler.error().message);
  return **compiler;
}

CpuTarget cpu_target_named(std::string_view name) {
  auto target = runtime::cpu_target(name);
  EXPECT_TRUE(target) << target.error().message;
  return *target;
}

CpuTarget baseline_target() { return runtime::host_cpu_target(runtime::CpuidWords{}); }

CompiledKernel compile(const codegen::KernelSpec& spec, const CpuTarget& target, bool texts) {
  auto kernel = cpu_plugin().compile({&spec, target, texts, texts});
  if (kernel) return std::move(*kernel);
  ADD_FAILURE() << kernel.error().message << "\n" << print(spec);
  return {};
}

std::unique_ptr<runtime::LoadedKernel> compile_and_load(const codegen::KernelSpec& spec, const CpuTarget& target) {
  auto loaded = runtime::load_object(compile(spec, target).object, spec.name);
  if (loaded) return std::move(*loaded);
  ADD_FAILURE() << loaded.error().message << "\n" << print(spec);
  return nullptr;
}

}  // namespace stepfuse::test
