// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cpu/jit.h"
#include "runtime/cpu/object_loader.h"

#include <memory>

namespace stepfuse::test {

/// The plugin of this build.
const runtime::CpuCompiler& cpu_plugin();

runtime::CpuTarget cpu_target_named(std::string_view name);
/// The least x86-64: neither AVX nor FMA.
runtime::CpuTarget baseline_target();

/// Compiles and loads; a failure fails the test.
runtime::CompiledKernel compile(const codegen::KernelSpec& spec, const runtime::CpuTarget& target, bool texts = false);
std::unique_ptr<runtime::LoadedKernel> compile_and_load(const codegen::KernelSpec& spec,
                                                        const runtime::CpuTarget& target);

}  // namespace stepfuse::test
