// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/explain.h"
#include "compiler/plan.h"
#include "ir/support/status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// What the executor did, counted while it ran.
struct ExecutorReport {
  compiler::LaunchCounts last_step;  // launches of the last step() as they happened
  int64_t compiled_kernels = 0;      // generated because the process had none
  int64_t reused_kernels = 0;        // found in the process
  double compile_seconds = 0;        // wall time of prepare
  int64_t workspace_bytes = 0;
};

/// Pointers and scalars of one parameter for one step. `inputs` follows Graph::inputs(): null for scalars.
struct MemberBinding {
  bool active = false;  // has a gradient this step
  std::vector<void*> inputs;
  std::vector<double> hypers;  // by Graph::inputs() of kind Hyper, in order
  double step = 0;             // 1 for the first step
  std::vector<char> fresh;     // by Graph::inputs(): 1 while the state has never been written
};

/// Runs a plan on one device. prepare() compiles and allocates everything; run() allocates nothing of ours.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual Outcome run(std::span<const MemberBinding> parameters) = 0;
  virtual ExecutorReport report() const = 0;
  virtual compiler::BackendNotes notes() const = 0;
};

/// The executor for a plan on the host's CPU, for `interp`, later for a GPU. `plan` and `parameters` outlive it.
Result<std::unique_ptr<Executor>> make_cpu_executor(const compiler::StepPlan& plan,
                                                    const std::vector<compiler::PlannedParameter>& parameters,
                                                    const std::string& target, int threads);
Result<std::unique_ptr<Executor>> make_interpreter_executor(const compiler::StepPlan& plan,
                                                            const std::vector<compiler::PlannedParameter>& parameters);

}  // namespace stepfuse::runtime
