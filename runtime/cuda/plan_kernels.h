// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cuda/emit_move.h"
#include "codegen/lower_group.h"
#include "compiler/plan.h"
#include "runtime/cuda/cuda_kernels.h"

#include <vector>

namespace stepfuse::runtime {

CudaKernelRequest move_kernel_request(const codegen::CudaMove& move, const CudaArch& arch);
/// The kernel that evaluates scalars, the same for every plan.
CudaKernelRequest prologue_request(const CudaArch& arch);
/// The move that an AddDiag, Concat or Copy is.
codegen::CudaMove move_of(compiler::StepKind kind, const codegen::LoweredMove& move);

/// The architecture that a plan's kernels are made for on a device of this capability: one that a cache holds the
/// kernel of every plan for, so that a warm start and a bundle need no compiler; else the best that NVRTC knows.
Result<CudaArch> arch_for(int device, const Context& context);
/// The same for a target by name; only "cuda" asks the driver.
Result<CudaArch> plan_arch(const std::string& target, const Context& context);

/// Every kernel that steps of the plan may need on a device, each once: both variants of every fused phase, as tensors
/// may be bound at any address, moves, and the scalars.
std::vector<CudaKernelRequest> cuda_plan_requests(const compiler::StepPlan& plan, const CudaArch& arch);

}  // namespace stepfuse::runtime
