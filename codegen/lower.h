// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"
#include "compiler/plan.h"

#include <vector>

namespace stepfuse::codegen {

/// A reduction's result and how its partials are finished.
struct ReductionResult {
  ir::ValueId value;    // the reduction
  compiler::Access to;  // where its results go
  ir::Op op;
  ir::DType math;   // of the partials' sum
  ir::DType dtype;  // of the result
};

/// One phase of a fused step: the kernel, and what the runtime must bind for it.
struct LoweredPhase {
  KernelSpec spec;
  std::vector<compiler::Access> args;       // by KernelSpec::args
  std::vector<ir::ValueId> scalars;         // values of the scalar slots the kernel reads
  uint32_t first_scalar = 0;                // of these, in the group's slots (lower_group)
  std::vector<ReductionResult> reductions;  // by KernelSpec::reductions
  bool symbolic = false;                    // dims are 1 x 1 x elements of the parameter
  std::array<int64_t, 3> dims{1, 1, 1};
};

/// The domain of a phase for a parameter of that many elements.
std::array<int64_t, 3> phase_dims(const LoweredPhase& phase, int64_t elements);

/// Results of each reduction of a phase, and partials of each result.
struct ReductionLayout {
  int64_t results;
  int64_t chunks;
};
ReductionLayout reduction_layout(const LoweredPhase& phase, int64_t elements);

/// Partials of all reductions of a phase.
int64_t partial_count(const LoweredPhase& phase, int64_t elements);

/// Pure: the same plan gives the same kernels, names included.
LoweredPhase lower_phase(const compiler::GroupPlan& group, const compiler::GroupStep& step, size_t phase,
                         ir::Mode mode);

/// Every kernel of the plan, each once, in order of its first launch.
std::vector<KernelSpec> distinct_kernels(const compiler::StepPlan& plan);

}  // namespace stepfuse::codegen
