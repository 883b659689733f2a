// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"
#include "compiler/plan.h"

#include <vector>

namespace stepfuse::codegen {

/// A reduction's result and how its partials are finished.
struct ReductionResult {
  ir::ValueId value;  // the reduction; its slot receives the results
  ir::Op op;
  ir::DType math;   // of the partials' sum
  ir::DType dtype;  // of the result
};

/// One phase of a fused step: the kernel, and what the runtime must bind for it.
struct LoweredPhase {
  KernelSpec spec;
  std::vector<compiler::Access> args;       // by KernelSpec::args
  std::vector<ir::ValueId> scalars;         // values of the scalar slots the kernel reads
  std::vector<ReductionResult> reductions;  // by KernelSpec::reductions
  bool symbolic = false;                    // dims are 1 x 1 x elements of the parameter
  std::array<int64_t, 3> dims{1, 1, 1};
};

/// Pure: the same plan gives the same kernels, names included.
LoweredPhase lower_phase(const compiler::GroupPlan& group, const compiler::GroupStep& step, size_t phase,
                         ir::Mode mode);

}  // namespace stepfuse::codegen
