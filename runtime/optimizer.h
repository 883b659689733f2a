// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/counts.h"
#include "compiler/explain.h"
#include "compiler/plan.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/rule.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

struct OptimizerSettings {
  ir::Mode mode = ir::Mode::Default;
  std::string target = "cpu";  // "cpu", "x86-64-v3", "x86-64-v4", "interp", "cuda"
  int threads = 0;             // 0: one per core this process may use
  int device = 0;              // of target "cuda"
  compiler::RunnerOptions runner;
  std::shared_ptr<const Context> context;  // null: that of the environment
};

/// In elements, by dimension, 1 or more; empty: dense, row-major.
using Strides = compiler::Strides;

/// A tensor state of a parameter: torch's key, its memory, its type.
struct StateView {
  std::string key;
  ir::DType dtype;
  std::vector<int64_t> shape;
  Strides strides;
  void* data;  // null: the caller owns it and has not bound it yet, or it has no elements
};

/// A parameter as its owner holds it.
struct NewParameter {
  std::string name;
  ir::ParameterSpec spec;  // shape, element types in memory
  Strides param_strides, grad_strides;
  bool caller_states = false;  // bind() brings the memory of every state; the optimizer allocates none
  std::vector<std::pair<std::string, Strides>> state_strides;  // by key; those not named are dense
};

/// Memory for one parameter, laid out as add_parameter was told. Memory of different tensors must not overlap; bytes
/// between the elements of a tensor belong to others and are not touched. On an error the earlier binding stays.
struct MemoryBinding {
  void* data = nullptr;
  const void* gradient = nullptr;                     // null: the parameter stays as it is until one is bound
  std::vector<std::pair<std::string, void*>> states;  // by key: all, each time, where the caller owns them; else none
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
  Result<uint32_t> add_parameter(uint32_t group, const NewParameter& parameter);
  Result<uint32_t> add_parameter(uint32_t group, const std::string& name, const ir::ParameterSpec& spec) {
    return add_parameter(group, NewParameter{name, spec, {}, {}, false, {}});
  }
  Outcome prepare(const Progress& progress = {});

  Outcome bind(uint32_t parameter, const MemoryBinding& memory);
  Outcome bind(uint32_t parameter, void* data, const void* gradient) { return bind(parameter, {data, gradient, {}}); }
  /// One step over every parameter with a gradient (an empty one counts its step when its gradient is not null). On a
  /// device it is queued on `stream`; null: the device's own (Device::stream).
  Outcome step(void* stream = nullptr);
  /// Brings what bind() and set() have changed to a step that the caller has captured in a graph, before its next
  /// replay. Nothing to do, and legal, otherwise.
  Outcome refresh(void* stream = nullptr);
  /// Changes a hyperparameter of all parameters of a group, before or after prepare; those added later get it too.
  Outcome set(uint32_t group, std::string_view option, double value);
  /// What set would answer, without its effect.
  Outcome check_set(uint32_t group, std::string_view option, double value) const;

  /// States are absent until the first step, or until they are said to be there; then those of the optimizer read as
  /// zero, and what a caller's memory holds does not count.
  Result<std::vector<StateView>> states(uint32_t parameter) const;
  /// The same views for whoever will not look at the memory: it is not cleared, and a first step does that faster.
  Result<std::vector<StateView>> state_layouts(uint32_t parameter) const;
  /// Says that the states have been filled by the caller (import).
  void mark_states_present(uint32_t parameter);
  /// On a device this may wait for it.
  Result<int64_t> steps(uint32_t parameter) const;
  /// With 0 the states are absent again, with more they are there.
  void set_steps(uint32_t parameter, int64_t steps);

  /// Where tensors lie; states and what is bound.
  const Device& device() const;
  Device& device();

  size_t parameter_count() const;
  const compiler::StepPlan& plan() const;
  const std::vector<compiler::PlannedParameter>& planned() const;
  compiler::PlanCounts counts() const;
  ExecutorReport report() const;
  compiler::BackendNotes backend_notes() const;
  /// After prepare: Executor::product_entries().
  std::vector<Entry> product_entries() const;

 private:
  explicit Optimizer(OptimizerSettings settings);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfuse::runtime
