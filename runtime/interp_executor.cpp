// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/interpreter.h"
#include "runtime/element.h"
#include "runtime/executor.h"
#include "runtime/fresh_states.h"

namespace stepfuse::runtime {

using compiler::GroupPlan;
using ir::Graph;
using ir::Input;
using ir::InputKind;

namespace {

/// Runs each parameter's naive rule on the interpreter: exact in default mode, typed in strict.
class InterpreterExecutor final : public Executor {
 public:
  InterpreterExecutor(const compiler::StepPlan& plan, const std::vector<compiler::PlannedParameter>& parameters)
      : plan_(plan), parameters_(parameters) {}

  Result<StepEffect> run(std::span<const MemberBinding> parameters, void*) override {
    report_.last_step = {};
    for (const StridedTensor& piece : states_to_clear(parameters_, parameters)) clear(piece);
    for (const GroupPlan& group : plan_.groups) {
      const compiler::LaunchCounts naive = compiler::count_naive(group.naive);
      for (uint32_t member : group.members) {
        if (!parameters[member].active) continue;
        STEPFUSE_TRY(run_member(group, member, parameters[member]));
        report_.last_step.elementwise += naive.elementwise;
        report_.last_step.gemms += naive.gemms;
        report_.last_step.aux += naive.aux;
      }
    }
    return {};
  }

  ExecutorReport report() const override { return report_; }
  compiler::BackendNotes notes() const override { return {}; }

 private:
  std::vector<int64_t> dims_of(const Input& input, uint32_t member) const {
    const ir::Shape& shape = input.type.shape;
    if (shape.rank == 1 && shape.dims[0].is_symbol()) return {compiler::element_count(parameters_[member].shape)};
    std::vector<int64_t> dims;
    for (size_t i = 0; i < shape.rank; ++i)
      dims.push_back(shape.dims[i].is_symbol() ? parameters_[member].shape[i] : shape.dims[i].value());
    return dims;
  }

  /// Input `i` in memory, with the extents of the group's rule.
  StridedTensor tensor_of(const GroupPlan& group, size_t i, uint32_t member, const MemberBinding& binding) const {
    const Input& input = group.naive.inputs()[i];
    return {static_cast<std::byte*>(binding.inputs[i]), dims_of(input, member),
            group.layouts.empty() ? compiler::Strides() : group.layouts[i], ir::dtype_bytes(input.type.dtype)};
  }

  ir::Bindings bind(const GroupPlan& group, uint32_t member, const MemberBinding& binding) const {
    const Graph& graph = group.naive;
    ir::Bindings bindings;
    bindings.step = static_cast<int64_t>(binding.step);
    size_t hyper = 0;
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const Input& input = graph.inputs()[i];
      if (input.kind == InputKind::Hyper) bindings.scalars[input.name] = binding.hypers[hyper++];
      if (input.type.scalar) continue;
      if (input.kind == InputKind::State && binding.fresh[i] != 0) bindings.fresh.insert(input.name);
      const StridedTensor memory = tensor_of(group, i, member, binding);
      std::vector<std::byte> dense(static_cast<size_t>(memory.dense_bytes()));
      gather(memory, dense.data());
      ir::Tensor tensor{input.type.dtype, memory.shape, {}};
      const int64_t count = compiler::element_count(tensor.dims);
      for (int64_t e = 0; e < count; ++e) tensor.data.push_back(load_element(dense.data(), tensor.dtype, e));
      bindings.tensors.emplace(input.name, std::move(tensor));
    }
    return bindings;
  }

  Outcome run_member(const GroupPlan& group, uint32_t member, const MemberBinding& binding) const {
    const Graph& graph = group.naive;
    const auto evaluation = plan_.mode == ir::Mode::Strict ? ir::Evaluation::Typed : ir::Evaluation::Exact;
    STEPFUSE_ASSIGN(const auto results, ir::interpret(graph, bind(group, member, binding), evaluation));
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const auto it = results.find(graph.inputs()[i].name);
      if (it == results.end()) continue;
      const StridedTensor memory = tensor_of(group, i, member, binding);
      std::vector<std::byte> dense(static_cast<size_t>(memory.dense_bytes()));
      for (size_t e = 0; e < it->second.data.size(); ++e)
        store_element(dense.data(), it->second.dtype, static_cast<int64_t>(e), it->second.data[e]);
      scatter(dense.data(), memory);
    }
    return {};
  }

  const compiler::StepPlan& plan_;
  const std::vector<compiler::PlannedParameter>& parameters_;
  ExecutorReport report_;
};

}  // namespace

Result<std::unique_ptr<Executor>> make_interpreter_executor(const compiler::StepPlan& plan,
                                                            const std::vector<compiler::PlannedParameter>& parameters) {
  return std::make_unique<InterpreterExecutor>(plan, parameters);
}

}  // namespace stepfuse::runtime
