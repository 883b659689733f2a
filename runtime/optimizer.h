// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/counts.h"
#include "compiler/explain.h"
#include "compiler/plan.h"
#include "runtime/executor.h"
#include "runtime/rule.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stepfuse::runtime {

struct OptimizerSettings {
  ir::Mode mode = ir::Mode::Default;
  std::string target = "cpu";  // "cpu", "x86-64-v3", "x86-64-v4", "interp"
  int threads = 0;             // 0: one per core this process may use
  compiler::RunnerOptions runner;
};

/// A tensor state of a parameter: torch's key, its memory, its type.
struct StateView {
  std::string key;
  ir::DType dtype;
  std::vector<int64_t> shape;
  void* data;
};

/// Groups, parameters, states and the plan over them; the C++ API, the command and the tests stand on this class.
/// Call order: add_group, add_parameter, prepare, bind, step; a call out of order is an error that says so.
class Optimizer {
 public:
  static Result<Optimizer> create(OptimizerSettings settings);
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;
  ~Optimizer();

  Result<uint32_t> add_group(const std::string& recipe, const ir::OptionList& options);
  /// spec.param, .grad and .state are the element types in memory.
  Result<uint32_t> add_parameter(uint32_t group, const std::string& name, const ir::ParameterSpec& spec);
  Outcome prepare();

  /// Memory of a parameter and its gradient, dense and row-major; a null gradient skips the parameter until one is
  /// bound. Overlap with other bound memory is an error.
  Outcome bind(uint32_t parameter, void* data, const void* gradient);
  /// One step over every parameter with a gradient (an empty one counts its step when its gradient is not null).
  Outcome step();
  Outcome set(uint32_t group, const std::string& option, double value);

  Result<std::vector<StateView>> states(uint32_t parameter) const;
  /// Says that a state has been filled by the caller (import): it is no longer fresh.
  void mark_states_present(uint32_t parameter);
  int64_t steps(uint32_t parameter) const;
  void set_steps(uint32_t parameter, int64_t steps);

  size_t parameter_count() const;
  const compiler::StepPlan& plan() const;
  const std::vector<compiler::PlannedParameter>& planned() const;
  compiler::PlanCounts counts() const;
  ExecutorReport report() const;
  compiler::BackendNotes backend_notes() const;

 private:
  explicit Optimizer(OptimizerSettings settings);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfuse::runtime
