// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/lower_group.h"
#include "compiler/explain.h"
#include "compiler/plan.h"
#include "runtime/context.h"
#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/object_loader.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/executor.h"

#include <memory>
#include <vector>

namespace stepfuse::runtime {

using codegen::Factor;

struct PreparedPhase {
  codegen::LoweredPhase lowered;
  std::shared_ptr<const LoadedKernel> kernel;
  codegen::KernelFn function = nullptr;
  std::vector<int64_t> strides;  // 3 per argument; empty when contiguous
};

struct PreparedStep {
  compiler::StepKind kind;
  std::vector<PreparedPhase> phases;  // Fused
  codegen::LoweredProduct product;    // Product
  std::unique_ptr<Gemm> gemm;         // Product
  codegen::LoweredMove move;          // AddDiag, Concat, Copy
};

/// A group, ready to run: kernels loaded, products chosen, scalars compiled. As codegen::LoweredGroup.
struct PreparedGroup {
  const compiler::GroupPlan* plan = nullptr;
  std::vector<PreparedStep> steps;
  std::unique_ptr<ir::ScalarProgram> scalars;
  std::vector<uint32_t> hyper_index;  // scalars' hyper inputs -> MemberBinding::hypers
  std::vector<uint32_t> fresh_index;  // scalars' fresh states -> MemberBinding::fresh
};

struct PrepareContext {
  const compiler::StepPlan& plan;
  const CpuTarget& target;
  ThreadPool& pool;
  compiler::BackendNotes& notes;
  int64_t& compiled;  // counts the kernels the cache did not have
  const Context& context;
  const Progress& progress;  // may be empty
};

/// Lowers every group, compiles the kernels that the process lacks in parallel, and prepares the products.
Result<std::vector<PreparedGroup>> prepare_groups(const PrepareContext& context);

}  // namespace stepfuse::runtime
