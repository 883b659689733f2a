// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/optimizer.h"

#include "compiler/signature.h"
#include "ir/support/nearest.h"
#include "runtime/bound_memory.h"
#include "runtime/cuda_backend.h"
#include "runtime/debug/dump.h"
#include "runtime/debug/override.h"
#include "runtime/debug/repro.h"
#include "runtime/debug/trace.h"
#include "runtime/fresh_states.h"
#include "runtime/new_parameter.h"
#include "runtime/state_memory.h"
#include "runtime/target.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

namespace stepfuse::runtime {

using compiler::PlannedParameter;
using ir::Graph;
using ir::Input;
using ir::InputKind;

namespace {

/// All that a parameter's rule and layouts depend on, besides its group.
using Likeness = std::tuple<std::vector<int64_t>, std::array<ir::DType, 3>, Strides, Strides, bool,
                            std::vector<std::pair<std::string, Strides>>>;

Likeness likeness_of(const NewParameter& added) {
  const ir::ParameterSpec& spec = added.spec;
  return {spec.shape,          {spec.param, spec.grad, spec.state},
          added.param_strides, added.grad_strides,
          added.caller_states, added.state_strides};
}

struct Group {
  Rule rule;
  std::vector<uint32_t> parameters;
  std::map<std::string, double, std::less<>> values;  // set before prepare, for parameters to come
  std::map<Likeness, uint32_t> first_of;              // the first parameter of each kind
};

struct Parameter {
  uint32_t group = 0;
  ir::ParameterSpec spec;
  int64_t elements = 0;
  bool needs_gradient = true;  // a rule without a grad runs every step
  bool caller_states = false;
  int64_t steps = 0;
  bool has_gradient = false;
  std::vector<BoundMemory::Footprint> footprints;  // by the rule's inputs
};

Outcome check_settings(const OptimizerSettings& settings) {
  for (const std::string& pass : settings.runner.disabled)
    STEPFUSE_TRY(compiler::find_pass(pass).map([](const auto*) {}));
  if (settings.threads >= 0 && settings.threads <= 1024) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "threads={} is not legal", settings.threads),
                   "0 (one per core) to 1024");
}

/// The error with the parameter's name in front.
tl::unexpected<Status> named(const std::string& parameter, const Status& status) {
  return fail(Status{status.code, fmt::format("parameter '{}': {}", parameter, status.message), status.hint});
}

}  // namespace

struct Optimizer::Impl {
  OptimizerSettings settings;
  compiler::TargetTraits traits;
  std::unique_ptr<Device> device;
  std::vector<Group> groups;
  std::vector<Parameter> parameters;
  std::set<std::string> names;
  std::vector<PlannedParameter> planned;
  std::vector<MemberBinding> bindings;
  compiler::StepPlan plan;
  StateMemory states;
  std::unique_ptr<Executor> executor;  // goes before the states that its queued steps use
  BoundMemory bound;
  std::vector<void*> new_pointers;  // of bind(), kept so that rebinding allocates nothing

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

  /// What a parameter needs beside its plan, which is there already.
  void add_record(uint32_t group, const NewParameter& added, int64_t elements) {
    const PlannedParameter& plan_of_it = planned.back();
    const auto& inputs = plan_of_it.rule.inputs();
    Parameter record{group, added.spec, elements, false, added.caller_states, 0, false, {}};
    for (size_t i = 0; i < inputs.size(); ++i) {
      record.needs_gradient = record.needs_gradient || inputs[i].kind == InputKind::Grad;
      record.footprints.push_back(
          inputs[i].type.scalar ? BoundMemory::Footprint()
                                : BoundMemory::footprint(compiler::input_shape(inputs[i], added.spec.shape),
                                                         plan_of_it.layout(i), ir::dtype_bytes(inputs[i].type.dtype)));
    }
    parameters.push_back(std::move(record));
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
    binding.clear_states = true;
    bindings.push_back(std::move(binding));
  }

  Result<PlannedParameter> plan_parameter(uint32_t group, const NewParameter& added) const {
    const std::vector<int64_t>& shape = added.spec.shape;
    auto rule = groups[group].rule.instantiate(added.spec).and_then([&](const Graph& naive) {
      return compiler::specialise(naive, shape);
    });
    if (!rule) return named(added.name, rule.error());
    STEPFUSE_ASSIGN(std::vector<Strides> layouts, checked_layouts(added, *rule));
    if (!layouts.empty())
      if (const auto laid_out = compiler::lay_out(*rule, shape, layouts); !laid_out)
        return named(added.name, laid_out.error());
    return PlannedParameter{added.name, shape, std::move(*rule), groups[group].rule.peer(), std::move(layouts)};
  }

  Outcome prepare(const compiler::PlanOptions& options, const Progress& progress) {
    const Outcome prepared = make_executor(options, progress);
    if (!prepared) states = {};  // another attempt gets new ones; until then somebody else may need the memory
    return prepared;
  }

  Outcome make_executor(const compiler::PlanOptions& options, const Progress& progress) {
    const Context& context = *settings.context;
    STEPFUSE_TRY(make_plan(options));
    STEPFUSE_TRY(check_overrides(context, plan));
    dump_plan(context, plan, planned);
    STEPFUSE_TRY(allocate_states());
    if (settings.target == "interp") {
      STEPFUSE_ASSIGN(executor, make_interpreter_executor(plan, planned));
    } else if (is_cuda_target(settings.target)) {
      STEPFUSE_ASSIGN(executor, make_cuda_executor(plan, planned, *device, context, progress));
    } else {
      STEPFUSE_ASSIGN(executor, make_cpu_executor(plan, planned, settings.target, settings.threads, context, progress));
    }
    return {};
  }

  Outcome make_plan(const compiler::PlanOptions& options) {
    const TraceScope scope(settings.context->trace(), "plan");
    STEPFUSE_ASSIGN(plan, compiler::make_plan(planned, options));
    return {};
  }

  Outcome allocate_states() {
    std::vector<int64_t> bytes;
    for_each_own_state([&](uint32_t p, size_t i) { bytes.push_back(parameters[p].footprints[i].bytes); });
    STEPFUSE_ASSIGN(states, StateMemory::create(bytes, *device));
    size_t next = 0;
    bound = {};
    for_each_own_state([&](uint32_t p, size_t i) {
      bindings[p].inputs[i] = states.at(next++);
      STEPFUSE_CHECK(!bound.insert(range_of(p, i, bindings[p].inputs[i]), owner_id(p, i)), "states overlap");
    });
    return {};
  }

  /// The states that the optimizer allocates.
  template <class Visit>
  void for_each_own_state(Visit visit) {
    for (uint32_t p = 0; p < planned.size(); ++p)
      for (size_t i = 0; i < planned[p].rule.inputs().size() && !parameters[p].caller_states; ++i)
        if (planned[p].rule.inputs()[i].kind == InputKind::State) visit(p, i);
  }

  BoundMemory::Range range_of(uint32_t index, size_t input, const void* pointer) const {
    if (pointer == nullptr) return {};
    return {reinterpret_cast<uintptr_t>(pointer), parameters[index].footprints[input]};
  }

  static BoundMemory::Owner owner_id(uint32_t index, size_t input) { return BoundMemory::Owner{index} << 32 | input; }

  std::string label(BoundMemory::Owner owner) const {
    const PlannedParameter& parameter = planned[owner >> 32];
    return tensor_label(parameter.name, parameter.rule.inputs()[owner & 0xffffffff]);
  }

  /// Whether bind() sets this input's pointer.
  bool is_bound_by_caller(uint32_t index, size_t input) const {
    const InputKind kind = planned[index].rule.inputs()[input].kind;
    return kind == InputKind::Param || kind == InputKind::Grad ||
           (kind == InputKind::State && parameters[index].caller_states);
  }

  Outcome check_pointers(uint32_t index) const {
    const PlannedParameter& parameter = planned[index];
    for (size_t i = 0; i < new_pointers.size(); ++i) {
      const Input& input = parameter.rule.inputs()[i];
      if (!is_bound_by_caller(index, i) || parameters[index].footprints[i].bytes == 0) continue;
      if (new_pointers[i] == nullptr && input.kind != InputKind::Grad)
        return with_hint(
            fail(StatusCode::InvalidArgument, "{} is bound to a null pointer", tensor_label(parameter.name, input)),
            "only a gradient may be null: the parameter is then left as it is");
      if (reinterpret_cast<uintptr_t>(new_pointers[i]) % static_cast<uintptr_t>(ir::dtype_bytes(input.type.dtype)) != 0)
        return with_hint(fail(StatusCode::InvalidArgument, "the memory of {} is not aligned to its element type",
                              tensor_label(parameter.name, input)),
                         "every tensor starts at a multiple of the size of its elements");
      if (new_pointers[i] != nullptr && new_pointers[i] != bindings[index].inputs[i] && !device->is_host())
        STEPFUSE_TRY(device->check_pointer(new_pointers[i], tensor_label(parameter.name, input)));
    }
    return {};
  }

  /// Moves the parameter's tensors to new_pointers, or leaves them where they are.
  Outcome move_tensors(uint32_t index) {
    std::vector<void*>& old_pointers = bindings[index].inputs;
    const auto moves = [&](size_t i) { return is_bound_by_caller(index, i) && new_pointers[i] != old_pointers[i]; };
    for (size_t i = 0; i < new_pointers.size(); ++i)
      if (moves(i)) bound.erase(range_of(index, i, old_pointers[i]));
    for (size_t i = 0; i < new_pointers.size(); ++i) {
      if (!moves(i)) continue;
      const auto clash = bound.insert(range_of(index, i, new_pointers[i]), owner_id(index, i));
      if (!clash) continue;
      for (size_t k = 0; k < i; ++k)
        if (moves(k)) bound.erase(range_of(index, k, new_pointers[k]));
      for (size_t k = 0; k < new_pointers.size(); ++k)
        if (moves(k))
          STEPFUSE_CHECK(!bound.insert(range_of(index, k, old_pointers[k]), owner_id(index, k)),
                         "what was bound before overlaps");
      return with_hint(
          fail(StatusCode::InvalidArgument, "{} overlaps {} in memory", label(owner_id(index, i)), label(*clash)),
          "bind each tensor to memory of its own; add a tied parameter once");
    }
    for (size_t i = 0; i < new_pointers.size(); ++i)
      if (is_bound_by_caller(index, i)) old_pointers[i] = new_pointers[i];
    return {};
  }

  /// From now on the states hold what steps have left there, or count as absent whatever their memory holds.
  void set_fresh(uint32_t index, bool fresh) {
    MemberBinding& binding = bindings[index];
    for (size_t i = 0; i < binding.fresh.size(); ++i)
      if (planned[index].rule.inputs()[i].kind == InputKind::State) binding.fresh[i] = fresh ? 1 : 0;
    binding.clear_states = fresh;
    binding.counts_changed = true;
  }

  /// Absent states of ours read as zero.
  Outcome clear_own_states(uint32_t index) {
    if (parameters[index].caller_states || !bindings[index].clear_states) return {};
    std::vector<StridedTensor> pieces;
    append_state_pieces(planned[index], bindings[index], pieces);
    for (const StridedTensor& piece : pieces) STEPFUSE_TRY(clear_on(*device, piece));
    bindings[index].clear_states = false;
    return {};
  }

  void* stream_or_own(void* stream) const { return stream != nullptr ? stream : device->stream(); }

  void describe_step() {
    for (size_t p = 0; p < parameters.size(); ++p) {
      const Parameter& parameter = parameters[p];
      bindings[p].active = parameter.has_gradient && parameter.elements > 0;
      bindings[p].step = static_cast<double>(parameter.steps + 1);
    }
  }

  /// After a step: what it has done to counts and states. One that was only recorded in a graph has done nothing yet,
  /// but the device has got what the host had set.
  void count_step(StepEffect effect) {
    for (size_t p = 0; p < parameters.size(); ++p) {
      Parameter& parameter = parameters[p];
      MemberBinding& binding = bindings[p];
      const bool first = parameter.has_gradient && (binding.clear_states || parameter.steps == 0);
      if (parameter.has_gradient && effect == StepEffect::Taken) ++parameter.steps;
      if (first) set_fresh(static_cast<uint32_t>(p), false);
      binding.counts_changed = false;
    }
  }

  /// What the device has counted by itself.
  Outcome read_steps() {
    if (executor == nullptr || !executor->counts_steps()) return {};
    std::vector<int64_t> steps;
    for (const Parameter& parameter : parameters) steps.push_back(parameter.steps);
    STEPFUSE_TRY(executor->read_steps(steps));
    for (size_t p = 0; p < parameters.size(); ++p)
      if (!bindings[p].counts_changed) parameters[p].steps = steps[p];
    return {};
  }

  Result<double*> find_hyper(uint32_t index, std::string_view option, const Input** found) {
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

  tl::unexpected<Status> unknown_hyper(uint32_t index, std::string_view option) const {
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
  if (settings.context == nullptr) {
    STEPFUSE_ASSIGN(settings.context, Context::of_environment());
  }
  STEPFUSE_TRY(check_target_steps(settings.target));
  STEPFUSE_ASSIGN(const compiler::TargetTraits traits, target_traits(settings.target, settings.context->settings()));
  std::unique_ptr<Device> device = make_host_device(settings.context->allocator());
  if (is_cuda_target(settings.target)) {
    STEPFUSE_ASSIGN(device, open_cuda_device(settings.device, *settings.context));
  }
  Optimizer optimizer(std::move(settings));
  optimizer.impl_->traits = traits;
  optimizer.impl_->device = std::move(device);
  return optimizer;
}

Result<uint32_t> Optimizer::add_group(const std::string& recipe, const ir::OptionList& options) {
  STEPFUSE_TRY(impl_->require_open("add_group"));
  STEPFUSE_ASSIGN(Rule rule, Rule::create(recipe, options));
  impl_->groups.push_back({std::move(rule), {}, {}, {}});
  return static_cast<uint32_t>(impl_->groups.size() - 1);
}

Result<uint32_t> Optimizer::add_parameter(uint32_t group, const NewParameter& added) {
  const std::string& name = added.name;
  STEPFUSE_TRY(impl_->require_open("add_parameter"));
  STEPFUSE_TRY(impl_->require_group(group));
  if (impl_->names.contains(name))
    return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}' was added before", name),
                     "every parameter has a name of its own; add a tied parameter once");
  STEPFUSE_ASSIGN(const int64_t elements, checked_elements(added));
  const auto index = static_cast<uint32_t>(impl_->parameters.size());
  const auto [known, is_new] = impl_->groups[group].first_of.try_emplace(likeness_of(added), index);
  if (is_new) {
    auto planned = impl_->plan_parameter(group, added);
    if (!planned) {
      impl_->groups[group].first_of.erase(known);
      return fail(std::move(planned.error()));
    }
    impl_->planned.push_back(std::move(*planned));
  } else {
    impl_->planned.push_back(impl_->planned[known->second]);
    impl_->planned.back().name = name;
  }
  impl_->planned.back().alike = known->second + 1;
  impl_->names.insert(name);
  impl_->add_record(group, added, elements);
  impl_->groups[group].parameters.push_back(index);
  impl_->make_binding(index);
  const Input* input = nullptr;
  for (const auto& [option, value] : impl_->groups[group].values)
    if (auto hyper = impl_->find_hyper(index, option, &input)) **hyper = value;
  return index;
}

Outcome Optimizer::prepare(const Progress& progress) {
  STEPFUSE_TRY(impl_->require_open("prepare"));
  const Context& context = *impl_->settings.context;
  const TraceScope scope(context.trace(), "prepare");
  const compiler::PlanOptions options{impl_->settings.mode, impl_->traits, impl_->settings.runner};
  return with_repro({context, impl_->planned, impl_->plan, options}, [&] { return impl_->prepare(options, progress); });
}

Outcome Optimizer::bind(uint32_t index, const MemoryBinding& memory) {
  const TraceScope scope(impl_->settings.context->trace(), "bind");
  STEPFUSE_TRY(impl_->require_prepared("bind"));
  STEPFUSE_ASSIGN(Parameter * parameter, impl_->parameter(index));
  STEPFUSE_TRY(sort_pointers(impl_->planned[index], parameter->caller_states, memory, impl_->new_pointers));
  STEPFUSE_TRY(impl_->check_pointers(index));
  STEPFUSE_TRY(impl_->move_tensors(index));
  parameter->has_gradient = memory.gradient != nullptr || !parameter->needs_gradient;
  return {};
}

Outcome Optimizer::step(void* stream) {
  const TraceScope scope(impl_->settings.context->trace(), "step");
  STEPFUSE_TRY(impl_->require_prepared("step"));
  impl_->describe_step();
  STEPFUSE_ASSIGN(const StepEffect effect, impl_->executor->run(impl_->bindings, impl_->stream_or_own(stream)));
  impl_->count_step(effect);
  return {};
}

Outcome Optimizer::refresh(void* stream) {
  STEPFUSE_TRY(impl_->require_prepared("refresh"));
  impl_->describe_step();
  STEPFUSE_TRY(impl_->executor->refresh(impl_->bindings, impl_->stream_or_own(stream)));
  // Without a captured step nothing was brought anywhere: the next step has it still to do.
  if (impl_->executor->counts_steps()) impl_->count_step(StepEffect::Recorded);
  return {};
}

Outcome Optimizer::check_set(uint32_t group, std::string_view option, double value) const {
  STEPFUSE_TRY(impl_->require_group(group));
  const std::vector<uint32_t>& members = impl_->groups[group].parameters;
  if (members.empty())
    return with_hint(
        fail(StatusCode::InvalidArgument, "set '{}' on group {}, which has no parameters yet", option, group),
        "add its parameters first, or give the value to add_group");
  const Input* input = nullptr;
  for (uint32_t index : members) {
    STEPFUSE_TRY(impl_->find_hyper(index, option, &input).map([](double*) {}));
    if (!input->range.contains(value))
      return with_hint(
          fail(StatusCode::InvalidArgument, "{}: {}={} is not legal", impl_->planned[index].rule.name, option, value),
          fmt::format("{} takes a number in {}", option, ir::interval_text(input->range)));
  }
  return {};
}

Outcome Optimizer::set(uint32_t group, std::string_view option, double value) {
  // All are checked before one changes. Schedules call this every step, so after prepare it allocates nothing.
  STEPFUSE_TRY(check_set(group, option, value));
  const Input* input = nullptr;
  for (uint32_t index : impl_->groups[group].parameters) **impl_->find_hyper(index, option, &input) = value;
  if (impl_->executor == nullptr) impl_->groups[group].values.insert_or_assign(std::string(option), value);
  return {};
}

Result<std::vector<StateView>> Optimizer::states(uint32_t index) const {
  STEPFUSE_ASSIGN(std::vector<StateView> views, state_layouts(index));
  STEPFUSE_TRY(impl_->clear_own_states(index));
  return views;
}

Result<std::vector<StateView>> Optimizer::state_layouts(uint32_t index) const {
  STEPFUSE_TRY(impl_->require_prepared("states"));
  STEPFUSE_ASSIGN(const Parameter* parameter, impl_->parameter(index));
  std::vector<StateView> views;
  const PlannedParameter& planned = impl_->planned[index];
  for (size_t i = 0; i < planned.rule.inputs().size(); ++i) {
    const Input& input = planned.rule.inputs()[i];
    if (input.kind != InputKind::State) continue;
    views.push_back({input.key, input.type.dtype, compiler::input_shape(input, parameter->spec.shape),
                     planned.layout(i), impl_->bindings[index].inputs[i]});
  }
  return views;
}

void Optimizer::mark_states_present(uint32_t index) { impl_->set_fresh(index, false); }

Result<int64_t> Optimizer::steps(uint32_t index) const {
  STEPFUSE_TRY(impl_->read_steps());
  return impl_->parameters[index].steps;
}

void Optimizer::set_steps(uint32_t index, int64_t steps) {
  impl_->parameters[index].steps = steps;
  impl_->set_fresh(index, steps == 0);
}

const Device& Optimizer::device() const { return *impl_->device; }
Device& Optimizer::device() { return *impl_->device; }
size_t Optimizer::parameter_count() const { return impl_->parameters.size(); }
const compiler::StepPlan& Optimizer::plan() const { return impl_->plan; }
const std::vector<PlannedParameter>& Optimizer::planned() const { return impl_->planned; }
compiler::PlanCounts Optimizer::counts() const { return compiler::count_plan(impl_->plan, impl_->planned); }
ExecutorReport Optimizer::report() const {
  return impl_->executor == nullptr ? ExecutorReport{} : impl_->executor->report();
}
std::vector<Entry> Optimizer::product_entries() const {
  return impl_->executor == nullptr ? std::vector<Entry>() : impl_->executor->product_entries();
}
compiler::BackendNotes Optimizer::backend_notes() const {
  return impl_->executor == nullptr ? compiler::BackendNotes{} : impl_->executor->notes();
}

}  // namespace stepfuse::runtime
