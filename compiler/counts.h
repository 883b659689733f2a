// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"

#include <cstdint>

namespace stepfuse::compiler {

/// A launch is one plan step over one batch; a batched product is one. Views, scalars and constants count 0.
struct LaunchCounts {
  int64_t elementwise = 0;  // fused kernels, reductions and casts included
  int64_t gemms = 0;
  int64_t aux = 0;  // diagonals, copies, concatenations, scalars
  int64_t total() const { return elementwise + gemms + aux; }
  friend bool operator==(const LaunchCounts&, const LaunchCounts&) = default;
};

struct PlanCounts {
  LaunchCounts naive;       // one launch per tensor op of the rule and parameter
  LaunchCounts peer_eager;  // what the peers named by the recipes launch
  LaunchCounts fused;       // what the plan launches
  double gemm_flops = 0;  // multiply and add are two; a symmetric product that computes one triangle counts n + 1 of 2n
  double bytes_per_param = 0;  // read and written by fused kernels, and by products on parameters and states
  int64_t parameters = 0;      // elements
};

PlanCounts count_plan(const StepPlan& plan, const std::vector<PlannedParameter>& parameters);

/// Launches of a naive rule.
LaunchCounts count_naive(const ir::Graph& rule);

/// The formula behind the counts of an orthogonalised update, for tests and documents: per sub-batch, 3 products per
/// Newton-Schulz iteration, one kernel before them, and after them one kernel, or, with the update absorbed into the
/// last product, one diagonal launch.
LaunchCounts newton_schulz_launches(int64_t iterations, int64_t sub_batches, bool update_absorbed);
/// The same for the naive rule: 8 + (3 + 5) per iteration with nesterov and a 16-bit iteration, per matrix.
LaunchCounts newton_schulz_naive(int64_t iterations, int64_t matrices);

}  // namespace stepfuse::compiler
