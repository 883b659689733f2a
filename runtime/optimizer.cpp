// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/optimizer.h"

#include "compiler/signature.h"
#include "ir/support/nearest.h"
#include "runtime/bound_memory.h"
#include "runtime/state_memory.h"
#include "runtime/target.h"

#include <algorithm>
#include <set>

namespace stepfuse::runtime {

using compiler::PlannedParameter;
using ir::Graph;
using ir::Input;
using ir::InputKind;

namespace {

struct Group {
  Rule rule;
  std::vector<uint32_t> parameters;
};

struct Parameter {
  uint32_t group = 0;
  ir::ParameterSpec spec;
  int64_t elements = 0;
  bool needs_gradient = true;  // a rule without a grad runs every step
  int64_t steps = 0;
  BoundMemory::Range data, gradient;
  bool has_gradient = false;
};

/// Elements of a shape; negative extents and products beyond 2^62 bytes are refused.
Result<int64_t> checked_elements(const std::string& name, const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) {
    if (extent < 0)
      return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}': extent {} is negative", name, extent),
                       "extents are 0 or more");
    int64_t bytes = 0;
    if (__builtin_mul_overflow(elements, extent, &elements) || __builtin_mul_overflow(elements, int64_t{16}, &bytes))
      return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}': [{}] has more elements than memory can hold",
                            name, fmt::join(shape, ", ")),
                       "give the shape in elements, not in bytes");
  }
  return elements;
}

std::vector<int64_t> state_shape(const Input& input, const std::vector<int64_t>& parameter_shape) {
  std::vector<int64_t> shape;
  for (size_t i = 0; i < input.type.shape.rank; ++i) {
    if (input.type.shape.dims[i].is_symbol()) return parameter_shape;
    shape.push_back(input.type.shape.dims[i].value());
  }
  return shape;
}

Outcome check_settings(const OptimizerSettings& settings) {
  for (const std::string& pass : settings.runner.disabled)
    STEPFUSE_TRY(compiler::find_pass(pass).map([](const auto*) {}));
  if (settings.threads >= 0 && settings.threads <= 1024) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "threads={} is not legal", settings.threads),
                   "0 (one per core) to 1024");
}

}  // namespace

struct Optimizer::Impl {
  OptimizerSettings settings;
  compiler::TargetTraits traits;
  std::vector<Group> groups;
  std::vector<Parameter> parameters;
  std::set<std::string> names;
  std::vector<PlannedParameter> planned;
  std::vector<MemberBinding> bindings;
  compiler::StepPlan plan;
  std::unique_ptr<Executor> executor;
  StateMemory states;
  BoundMemory bound;

  Result<Parameter*> parameter(uint32_t index) {
    if (index < parameters.size()) return &parameters[index];
    return with_hint(
        fail(StatusCode::InvalidArgument, "there is no parameter number {}; {} were added", index, parameters.size()),
        "use what add_parameter of this optimizer returned");
  }

  Outcome require_group(uint32_t index) const {
    if (index < groups.size()) return {};
    return with_hint(
        fail(StatusCode::InvalidArgument, "there is no group number {}; {} were added", index, groups.size()),
        "use what add_group of this optimizer returned");
  }

  Outcome require_prepared(std::string_view call) const {
    if (executor != nullptr) return {};
    return with_hint(fail(StatusCode::InvalidArgument, "{} before prepare", call),
                     "call prepare once after the last add_parameter");
  }

  Outcome require_open(std::string_view call) const {
    if (executor == nullptr) return {};
    return with_hint(fail(StatusCode::InvalidArgument, "{} after prepare", call),
                     "add everything first; prepare closes the list");
  }

  void make_binding(uint32_t index) {
    const Graph& rule = planned[index].rule;
    MemberBinding binding;
    binding.inputs.assign(rule.inputs().size(), nullptr);
    binding.fresh.assign(rule.inputs().size(), 0);
    for (size_t i = 0; i < rule.inputs().size(); ++i) {
      const Input& input = rule.inputs()[i];
      if (input.kind == InputKind::Hyper) binding.hypers.push_back(*input.default_value);
      if (input.kind == InputKind::State) binding.fresh[i] = 1;
    }
    bindings.push_back(std::move(binding));
  }

  Outcome allocate_states() {
    std::vector<int64_t> bytes;
    for_each_state([&](uint32_t p, size_t i) {
      const Input& input = planned[p].rule.inputs()[i];
      bytes.push_back(compiler::element_count(state_shape(input, parameters[p].spec.shape)) *
                      ir::dtype_bytes(input.type.dtype));
    });
    STEPFUSE_ASSIGN(states, StateMemory::create(bytes));
    size_t next = 0;
    for_each_state([&](uint32_t p, size_t i) { bindings[p].inputs[i] = states.at(next++); });
    next = 0;
    bound = {};
    for_each_state([&](uint32_t p, size_t i) {
      const BoundMemory::Range range{reinterpret_cast<uintptr_t>(bindings[p].inputs[i]), bytes[next++]};
      STEPFUSE_CHECK(
          bound.insert(range, fmt::format("state '{}' of '{}'", planned[p].rule.inputs()[i].key, planned[p].name)),
          "states overlap");
    });
    return {};
  }

  template <class Visit>
  void for_each_state(Visit visit) {
    for (uint32_t p = 0; p < planned.size(); ++p)
      for (size_t i = 0; i < planned[p].rule.inputs().size(); ++i)
        if (planned[p].rule.inputs()[i].kind == InputKind::State) visit(p, i);
  }

  Outcome check_pointers(const Parameter& p, const std::string& name, const void* data, const void* gradient) const {
    if (p.elements == 0) return {};
    if (data == nullptr)
      return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}' is bound to a null pointer", name),
                       "only a gradient may be null: the parameter is then left as it is");
    const auto misaligned = [](const void* pointer, ir::DType dtype) {
      return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(ir::dtype_bytes(dtype)) != 0;
    };
    if (misaligned(data, p.spec.param) || misaligned(gradient, p.spec.grad))
      return with_hint(
          fail(StatusCode::InvalidArgument, "the memory of parameter '{}' is not aligned to its element type", name),
          "parameter and gradient start at a multiple of the size of their elements");
    return {};
  }

  Outcome replace_ranges(Parameter& p, const std::string& name, BoundMemory::Range data, BoundMemory::Range gradient) {
    bound.erase(p.data);
    bound.erase(p.gradient);
    const auto restore = [&](Outcome failed) {
      // What was bound before did not overlap, so it fits again.
      if (bound.insert(p.data, "parameter '" + name + "'") &&
          bound.insert(p.gradient, "the gradient of '" + name + "'"))
        return failed;
      throw InternalError("earlier bindings overlap");
    };
    if (auto outcome = bound.insert(data, "parameter '" + name + "'"); !outcome) return restore(std::move(outcome));
    if (auto outcome = bound.insert(gradient, "the gradient of '" + name + "'"); !outcome) {
      bound.erase(data);
      return restore(std::move(outcome));
    }
    p.data = data;
    p.gradient = gradient;
    return {};
  }

  void set_pointers(uint32_t index, void* data, const void* gradient) {
    const Graph& rule = planned[index].rule;
    for (size_t i = 0; i < rule.inputs().size(); ++i) {
      if (rule.inputs()[i].kind == InputKind::Param) bindings[index].inputs[i] = data;
      // Gradients are only read; the bindings hold one kind of pointer.
      if (rule.inputs()[i].kind == InputKind::Grad) bindings[index].inputs[i] = const_cast<void*>(gradient);
    }
  }

  Result<double*> find_hyper(uint32_t index, const std::string& option, const Input** found) {
    size_t hyper = 0;
    for (const Input& input : planned[index].rule.inputs()) {
      if (input.kind != InputKind::Hyper) continue;
      if (input.name == option) {
        *found = &input;
        return &bindings[index].hypers[hyper];
      }
      ++hyper;
    }
    return unknown_hyper(index, option);
  }

  tl::unexpected<Status> unknown_hyper(uint32_t index, const std::string& option) const {
    const PlannedParameter& p = planned[index];
    std::vector<std::string_view> options;
    for (const Input& input : p.rule.inputs())
      if (input.kind == InputKind::Hyper) options.push_back(input.name);
    return with_hint(fail(StatusCode::InvalidArgument, "{}: '{}' cannot be changed between steps", p.rule.name, option),
                     suggestion(option, options,
                                fmt::format("what can is {}; other options are fixed when the plan is made",
                                            fmt::join(options, ", "))));
  }
};

Optimizer::Optimizer(OptimizerSettings settings) : impl_(std::make_unique<Impl>()) {
  impl_->settings = std::move(settings);
}
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;
Optimizer::~Optimizer() = default;

Result<Optimizer> Optimizer::create(OptimizerSettings settings) {
  STEPFUSE_TRY(check_settings(settings));
  STEPFUSE_ASSIGN(const compiler::TargetTraits traits, target_traits(settings.target));
  Optimizer optimizer(std::move(settings));
  optimizer.impl_->traits = traits;
  return optimizer;
}

Result<uint32_t> Optimizer::add_group(const std::string& recipe, const ir::OptionList& options) {
  STEPFUSE_TRY(impl_->require_open("add_group"));
  STEPFUSE_ASSIGN(Rule rule, Rule::create(recipe, options));
  impl_->groups.push_back({std::move(rule), {}});
  return static_cast<uint32_t>(impl_->groups.size() - 1);
}

Result<uint32_t> Optimizer::add_parameter(uint32_t group, const std::string& name, const ir::ParameterSpec& spec) {
  STEPFUSE_TRY(impl_->require_open("add_parameter"));
  STEPFUSE_TRY(impl_->require_group(group));
  if (impl_->names.contains(name))
    return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}' was added before", name),
                     "every parameter has a name of its own; add a tied parameter once");
  STEPFUSE_ASSIGN(const int64_t elements, checked_elements(name, spec.shape));
  auto rule = impl_->groups[group].rule.instantiate(spec).and_then(
      [&](const Graph& naive) { return compiler::specialise(naive, spec.shape); });
  if (!rule)
    return fail(
        Status{rule.error().code, fmt::format("parameter '{}': {}", name, rule.error().message), rule.error().hint});
  const auto index = static_cast<uint32_t>(impl_->parameters.size());
  const auto& inputs = rule->inputs();
  const bool needs_gradient =
      std::any_of(inputs.begin(), inputs.end(), [](const Input& input) { return input.kind == InputKind::Grad; });
  impl_->names.insert(name);
  impl_->planned.push_back({name, spec.shape, std::move(*rule), impl_->groups[group].rule.peer()});
  impl_->parameters.push_back({group, spec, elements, needs_gradient, 0, {}, {}, false});
  impl_->groups[group].parameters.push_back(index);
  impl_->make_binding(index);
  return index;
}

Outcome Optimizer::prepare() {
  STEPFUSE_TRY(impl_->require_open("prepare"));
  compiler::PlanOptions options;
  options.mode = impl_->settings.mode;
  options.target = impl_->traits;
  options.runner = impl_->settings.runner;
  STEPFUSE_ASSIGN(impl_->plan, compiler::make_plan(impl_->planned, options));
  STEPFUSE_TRY(impl_->allocate_states());
  if (impl_->settings.target == "interp") {
    STEPFUSE_ASSIGN(impl_->executor, make_interpreter_executor(impl_->plan, impl_->planned));
  } else {
    STEPFUSE_ASSIGN(impl_->executor,
                    make_cpu_executor(impl_->plan, impl_->planned, impl_->settings.target, impl_->settings.threads));
  }
  return {};
}

Outcome Optimizer::bind(uint32_t index, void* data, const void* gradient) {
  STEPFUSE_TRY(impl_->require_prepared("bind"));
  STEPFUSE_ASSIGN(Parameter * parameter, impl_->parameter(index));
  const std::string& name = impl_->planned[index].name;
  STEPFUSE_TRY(impl_->check_pointers(*parameter, name, data, gradient));
  const auto range = [&](const void* pointer, ir::DType dtype) {
    return BoundMemory::Range{reinterpret_cast<uintptr_t>(pointer),
                              pointer == nullptr ? 0 : parameter->elements * ir::dtype_bytes(dtype)};
  };
  STEPFUSE_TRY(impl_->replace_ranges(*parameter, name, range(data, parameter->spec.param),
                                     range(gradient, parameter->spec.grad)));
  parameter->has_gradient = gradient != nullptr || !parameter->needs_gradient;
  impl_->set_pointers(index, data, gradient);
  return {};
}

Outcome Optimizer::step() {
  STEPFUSE_TRY(impl_->require_prepared("step"));
  for (size_t p = 0; p < impl_->parameters.size(); ++p) {
    const Parameter& parameter = impl_->parameters[p];
    impl_->bindings[p].active = parameter.has_gradient && parameter.elements > 0;
    impl_->bindings[p].step = static_cast<double>(parameter.steps + 1);
  }
  STEPFUSE_TRY(impl_->executor->run(impl_->bindings));
  for (size_t p = 0; p < impl_->parameters.size(); ++p) {
    if (!impl_->parameters[p].has_gradient) continue;
    ++impl_->parameters[p].steps;
    mark_states_present(static_cast<uint32_t>(p));
  }
  return {};
}

Outcome Optimizer::set(uint32_t group, const std::string& option, double value) {
  STEPFUSE_TRY(impl_->require_prepared("set"));
  STEPFUSE_TRY(impl_->require_group(group));
  const std::vector<uint32_t>& members = impl_->groups[group].parameters;
  if (members.empty())
    return with_hint(
        fail(StatusCode::InvalidArgument, "set '{}' on group {}, which has no parameters yet", option, group),
        "add its parameters first, or give the value to add_group");
  // All are checked before one changes. Schedules call this every step, so it allocates nothing.
  const Input* input = nullptr;
  for (uint32_t index : members) {
    STEPFUSE_TRY(impl_->find_hyper(index, option, &input).map([](double*) {}));
    if (!input->range.contains(value))
      return with_hint(
          fail(StatusCode::InvalidArgument, "{}: {}={} is not legal", impl_->planned[index].rule.name, option, value),
          fmt::format("{} takes a number in {}", option, ir::interval_text(input->range)));
  }
  for (uint32_t index : members) **impl_->find_hyper(index, option, &input) = value;
  return {};
}

Result<std::vector<StateView>> Optimizer::states(uint32_t index) const {
  STEPFUSE_TRY(impl_->require_prepared("states"));
  STEPFUSE_ASSIGN(const Parameter* parameter, impl_->parameter(index));
  std::vector<StateView> views;
  const Graph& rule = impl_->planned[index].rule;
  for (size_t i = 0; i < rule.inputs().size(); ++i) {
    const Input& input = rule.inputs()[i];
    if (input.kind != InputKind::State) continue;
    views.push_back(
        {input.key, input.type.dtype, state_shape(input, parameter->spec.shape), impl_->bindings[index].inputs[i]});
  }
  return views;
}

void Optimizer::mark_states_present(uint32_t index) {
  std::fill(impl_->bindings[index].fresh.begin(), impl_->bindings[index].fresh.end(), char{0});
}

int64_t Optimizer::steps(uint32_t index) const { return impl_->parameters[index].steps; }

void Optimizer::set_steps(uint32_t index, int64_t steps) { impl_->parameters[index].steps = steps; }

size_t Optimizer::parameter_count() const { return impl_->parameters.size(); }
const compiler::StepPlan& Optimizer::plan() const { return impl_->plan; }
const std::vector<PlannedParameter>& Optimizer::planned() const { return impl_->planned; }
compiler::PlanCounts Optimizer::counts() const { return compiler::count_plan(impl_->plan, impl_->planned); }
ExecutorReport Optimizer::report() const {
  return impl_->executor == nullptr ? ExecutorReport{} : impl_->executor->report();
}
compiler::BackendNotes Optimizer::backend_notes() const {
  return impl_->executor == nullptr ? compiler::BackendNotes{} : impl_->executor->notes();
}

}  // namespace stepfuse::runtime
