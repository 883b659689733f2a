// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/lower_group.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/cuda_memory.h"
#include "runtime/executor.h"

#include <memory>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// A kernel on the device, ready to be captured.
struct CudaFunction {
  std::shared_ptr<const CudaKernel> kernel;
  cuda::CUfunction handle = nullptr;
};

struct CudaPhase {
  codegen::LoweredPhase lowered;
  CudaFunction aligned, generic;
};

/// One launch of a group, or one per phase.
struct CudaStep {
  compiler::StepKind kind;
  std::vector<CudaPhase> phases;    // Fused
  codegen::LoweredProduct product;  // Product
  codegen::LoweredMove move;        // AddDiag, Concat, Copy
  CudaFunction mover;               // of these
};

struct CudaGroup {
  const compiler::GroupPlan* plan = nullptr;
  std::vector<CudaStep> steps;
  std::unique_ptr<ir::ScalarProgram> scalars;
  std::vector<uint32_t> hyper_index;  // scalars' hyper inputs -> MemberBinding::hypers
  std::vector<uint32_t> fresh_index;  // scalars' fresh states -> MemberBinding::fresh
};

/// A plan's kernels on the device; products are chosen when their memory is known.
struct CudaPlan {
  std::vector<CudaGroup> groups;
  CudaFunction prologue;
};

struct CudaPrepareContext {
  const compiler::StepPlan& plan;
  const CudaMemory& device;
  const Context& context;
  const Progress& progress;  // may be empty
  ExecutorReport& report;    // counts kernels
};

/// Lowers every group, finds or compiles the kernels in parallel, and loads them. The device's context is current.
Result<CudaPlan> prepare_cuda_plan(const CudaPrepareContext& context);

}  // namespace stepfuse::runtime
