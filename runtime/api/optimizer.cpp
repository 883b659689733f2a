// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Optimizers behind the C interface: groups, parameters, prepare.
#include "runtime/optimizer.h"

#include "ir/support/nearest.h"
#include "runtime/api/objects.h"

#include <algorithm>

using namespace stepfuse;
using namespace stepfuse::api;

namespace {

/// An element type that may be left out.
Result<ir::DType> dtype_or(stepfuse_dtype dtype, ir::DType otherwise, const std::string& what) {
  if (is_unset(dtype)) return otherwise;
  return to_ir(dtype, what);
}

std::vector<int64_t> copy_strides(const int64_t* strides, size_t count) {
  return strides == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(strides, strides + count);
}

Outcome check_flags(const stepfuse_parameter& given, const std::string& what) {
  if ((given.flags & ~uint32_t{STEPFUSE_CALLER_STATES}) != 0)
    return with_hint(fail(StatusCode::Unsupported, "{}: flags {:#x} are unknown to this version", what, given.flags),
                     "use 0 or STEPFUSE_CALLER_STATES");
  if (!is_unset(given.master_dtype))
    return with_hint(fail(StatusCode::Unsupported, "{}: master copies are not yet supported", what),
                     "leave master_dtype zero");
  if (given.state_layouts == nullptr && given.state_layouts_count > 0)
    return with_hint(fail(StatusCode::InvalidArgument, "{}: state_layouts is null, and its count is {}", what,
                          given.state_layouts_count),
                     "give the array, or a count of 0");
  if (given.state_layouts_count > 0 && (given.flags & STEPFUSE_CALLER_STATES) == 0)
    return with_hint(fail(StatusCode::InvalidArgument, "{}: state_layouts without STEPFUSE_CALLER_STATES", what),
                     "the optimizer lays out the states that it allocates itself");
  return {};
}

Outcome copy_state_layouts(const stepfuse_parameter& given, const std::string& what, runtime::NewParameter& out) {
  for (size_t i = 0; i < given.state_layouts_count; ++i) {
    const stepfuse_state_layout& layout = given.state_layouts[i];
    if (layout.key == nullptr)
      return with_hint(fail(StatusCode::InvalidArgument, "{}: state_layouts[{}] has a null key", what, i),
                       "name the state as torch does, such as \"exp_avg\"");
    out.state_strides.emplace_back(layout.key, copy_strides(layout.strides, out.spec.shape.size()));
  }
  return {};
}

Result<runtime::NewParameter> to_runtime(const stepfuse_parameter& given) {
  STEPFUSE_TRY(require(given.name, "parameter.name"));
  runtime::NewParameter out;
  out.name = given.name;
  const std::string what = fmt::format("parameter '{}'", given.name);
  if (given.ndim < 0 || (given.shape == nullptr && given.ndim > 0))
    return with_hint(given.ndim < 0 ? fail(StatusCode::InvalidArgument, "{}: ndim {} is negative", what, given.ndim)
                                    : fail(StatusCode::InvalidArgument, "{}: the shape is null", what),
                     "give `ndim` extents, in elements");
  constexpr int32_t kMostDimensions = 64;  // as many as torch takes
  if (given.ndim > kMostDimensions)
    return with_hint(fail(StatusCode::InvalidArgument, "{}: it has {} dimensions", what, given.ndim),
                     fmt::format("at most {} are legal", kMostDimensions));
  STEPFUSE_TRY(check_flags(given, what));
  const auto ndim = static_cast<size_t>(given.ndim);
  if (ndim > 0) out.spec.shape.assign(given.shape, given.shape + ndim);
  STEPFUSE_ASSIGN(out.spec.param, dtype_or(given.dtype, ir::DType::F32, what));
  STEPFUSE_ASSIGN(out.spec.grad, dtype_or(given.grad_dtype, out.spec.param, what + ", gradient"));
  STEPFUSE_ASSIGN(out.spec.state, dtype_or(given.state_dtype, out.spec.param, what + ", states"));
  out.param_strides = copy_strides(given.strides, ndim);
  out.grad_strides = copy_strides(given.grad_strides, ndim);
  out.caller_states = (given.flags & STEPFUSE_CALLER_STATES) != 0;
  STEPFUSE_TRY(copy_state_layouts(given, what, out));
  return out;
}

ParameterInfo info_of(const stepfuse_parameter& given, const runtime::NewParameter& added, uint32_t group) {
  ParameterInfo info;
  info.name = added.name;
  info.group = group;
  info.param = make_layout(added.spec.shape, given.strides, added.spec.param);
  info.grad = make_layout(added.spec.shape, given.grad_strides, added.spec.grad);
  info.caller_states = added.caller_states;
  return info;
}

/// The number of the parameter in the runtime's optimizer, or kNotRouted: then prepare adds it.
Result<uint32_t> add_or_wait(OptimizerObject& object, uint32_t id, uint32_t group,
                             const runtime::NewParameter& wanted) {
  if (group != STEPFUSE_GROUP_ROUTED) return object.optimizer.add_parameter(group, wanted);
  if (object.prepared)
    return with_hint(fail(StatusCode::InvalidArgument, "add_parameter after prepare"),
                     "add everything first; prepare closes the list");
  if (!object.router)
    return with_hint(
        fail(StatusCode::InvalidArgument, "parameter '{}' is to be routed, and there is no config", wanted.name),
        "call load_config first, or name a group");
  if (object.routes)
    return with_hint(
        fail(StatusCode::InvalidArgument, "parameter '{}' is to be routed, and routing is done", wanted.name),
        "add every routed parameter before the first prepare, or name a group");
  object.waiting.push_back({id, wanted});
  return kNotRouted;
}

/// Takes back the notes about a parameter or group that was not added after all, whether by an error or an exception.
template <class Undo>
class Rollback {
 public:
  explicit Rollback(Undo undo) : undo_(std::move(undo)) {}
  ~Rollback() {
    if (armed_) undo_();
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  void release() { armed_ = false; }

 private:
  Undo undo_;
  bool armed_ = true;
};

/// Our notes are made first, so that a lack of memory for them leaves the optimizer as it was.
Result<uint32_t> add(OptimizerObject& object, uint32_t group, const runtime::NewParameter& wanted, ParameterInfo info) {
  const auto id = static_cast<uint32_t>(object.parameters.size());
  const auto [entry, fresh] = object.ids.try_emplace(wanted.name, id);
  if (!fresh)
    return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}' was added before", wanted.name),
                     "every parameter has a name of its own; add a tied parameter once");
  Rollback rollback([&] {
    object.parameters.resize(id);
    object.ids.erase(entry);
  });
  object.parameters.push_back(std::move(info));
  STEPFUSE_ASSIGN(object.parameters.back().index, add_or_wait(object, id, group, wanted));
  rollback.release();
  return id;
}

Outcome remember_states(OptimizerObject& object) {
  for (uint32_t id = 0; id < object.parameters.size(); ++id) {
    STEPFUSE_ASSIGN(const std::vector<runtime::StateView> views,
                    object.optimizer.state_layouts(object.parameters[id].index));
    std::vector<StateInfo>& states = object.parameters[id].states;
    states.clear();
    for (const runtime::StateView& view : views)
      states.push_back(
          {view.key, make_layout(view.shape, view.strides.empty() ? nullptr : view.strides.data(), view.dtype)});
  }
  return {};
}

void say_prepared(const OptimizerObject& object) {
  const Log& log = object.context->log();
  if (!log.wants(LogLevel::Info)) return;
  const runtime::ExecutorReport report = object.optimizer.report();
  log.write(LogLevel::Info, fmt::format("prepared {} parameters: {} launches a step, {} kernels compiled, {:.3f} s",
                                        object.parameters.size(), object.optimizer.counts().fused.total(),
                                        report.compiled_kernels, report.compile_seconds));
}

runtime::Progress to_progress(const stepfuse_prepare_options& options) {
  if (options.progress == nullptr) return {};
  return [call = options.progress, user = options.progress_user](int64_t done, int64_t total, std::string_view what) {
    call(user, done, total, std::string(what).c_str());
  };
}

}  // namespace

stepfuse_status stepfuse_optimizer_create(stepfuse_context* context, stepfuse_optimizer** out) {
  return answer([&]() -> Reply {
    STEPFUSE_TRY(require(out, "out"));
    STEPFUSE_ASSIGN(const std::shared_ptr<void> held, find_handle(HandleKind::Context, context));
    auto shared = static_cast<const ContextObject*>(held.get())->context;
    STEPFUSE_ASSIGN(runtime::Optimizer made, runtime::Optimizer::create(optimizer_settings(shared)));
    auto object = std::make_shared<OptimizerObject>(std::move(shared), std::move(made));
    *out = static_cast<stepfuse_optimizer*>(insert_handle(HandleKind::Optimizer, std::move(object)));
    return {};
  });
}

stepfuse_status stepfuse_optimizer_destroy(stepfuse_optimizer* optimizer) {
  if (optimizer == nullptr) return STEPFUSE_OK;
  return answer([&]() -> Reply {
    STEPFUSE_TRY(remove_handle(HandleKind::Optimizer, optimizer).map([](const auto&) {}));
    return {};
  });
}

stepfuse_status stepfuse_optimizer_device(stepfuse_optimizer* optimizer, stepfuse_device* device) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(device, "device"));
    *device = device_of(object.optimizer.device());
    return {};
  });
}

stepfuse_status stepfuse_optimizer_add_group(stepfuse_optimizer* optimizer, const char* recipe,
                                             const stepfuse_option* options, size_t options_count, uint32_t* group) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(recipe, "recipe"));
    STEPFUSE_TRY(require(group, "group"));
    STEPFUSE_ASSIGN(const ir::OptionList list, to_options(options, options_count, "options"));
    object.groups.emplace_back();
    Rollback rollback([&] { object.groups.pop_back(); });
    STEPFUSE_ASSIGN(*group, object.optimizer.add_group(recipe, list));
    rollback.release();
    return {};
  });
}

stepfuse_status stepfuse_optimizer_add_parameter(stepfuse_optimizer* optimizer, uint32_t group,
                                                 const stepfuse_parameter* parameter, uint32_t* id) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(parameter, "parameter"));
    STEPFUSE_TRY(require(id, "id"));
    STEPFUSE_ASSIGN(const stepfuse_parameter given, read_struct(parameter, "parameter"));
    STEPFUSE_ASSIGN(const runtime::NewParameter wanted, to_runtime(given));
    STEPFUSE_ASSIGN(const uint32_t added, add(object, group, wanted, info_of(given, wanted, group)));
    *id = added;
    return {};
  });
}

stepfuse_status stepfuse_optimizer_parameter_count(stepfuse_optimizer* optimizer, uint32_t* count) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(count, "count"));
    *count = static_cast<uint32_t>(object.parameters.size());
    return {};
  });
}

stepfuse_status stepfuse_optimizer_group_count(stepfuse_optimizer* optimizer, uint32_t* count) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(count, "count"));
    *count = static_cast<uint32_t>(object.groups.size());
    return {};
  });
}

stepfuse_status stepfuse_optimizer_find_parameter(stepfuse_optimizer* optimizer, const char* name, uint32_t* id) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(name, "name"));
    STEPFUSE_TRY(require(id, "id"));
    const auto it = object.ids.find(std::string_view(name));
    if (it == object.ids.end()) {
      std::vector<std::string_view> names;
      for (const ParameterInfo& parameter : object.parameters) names.push_back(parameter.name);
      return with_hint(fail(StatusCode::NotFound, "there is no parameter '{}'", name),
                       suggestion(name, names, fmt::format("{} parameters were added", names.size())));
    }
    *id = it->second;
    return {};
  });
}

stepfuse_status stepfuse_optimizer_parameter_group(stepfuse_optimizer* optimizer, uint32_t id, uint32_t* group) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(group, "group"));
    STEPFUSE_ASSIGN(const ParameterInfo* info, object.routed_parameter(id, "parameter_group"));
    *group = info->group;
    return {};
  });
}

stepfuse_status stepfuse_optimizer_group_name(stepfuse_optimizer* optimizer, uint32_t group, const char** name) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(name, "name"));
    if (group >= object.groups.size())
      return with_hint(
          fail(StatusCode::InvalidArgument, "there is no group number {}; {} were added", group, object.groups.size()),
          "use what add_group or parameter_group of this optimizer returned");
    *name = object.groups[group].name.c_str();
    return {};
  });
}

stepfuse_status stepfuse_optimizer_find_group(stepfuse_optimizer* optimizer, const char* name, uint32_t* group) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(name, "name"));
    STEPFUSE_TRY(require(group, "group"));
    std::vector<std::string_view> names;
    for (const GroupInfo& info : object.groups)
      if (!info.name.empty()) names.push_back(info.name);
    const auto it = std::find_if(object.groups.begin(), object.groups.end(),
                                 [&](const GroupInfo& info) { return !info.name.empty() && info.name == name; });
    if (it == object.groups.end())
      return with_hint(fail(StatusCode::NotFound, "there is no group '{}'", name),
                       names.empty()
                           ? std::string("groups have names when a config has routed parameters to them")
                           : suggestion(name, names, fmt::format("the groups are {}", fmt::join(names, ", "))));
    *group = static_cast<uint32_t>(it - object.groups.begin());
    return {};
  });
}

stepfuse_status stepfuse_optimizer_prepare(stepfuse_optimizer* optimizer, const stepfuse_prepare_options* options) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_ASSIGN(const stepfuse_prepare_options given, read_struct(options, "prepare_options"));
    STEPFUSE_TRY(add_routed(object));
    STEPFUSE_TRY(object.optimizer.prepare(to_progress(given)));
    STEPFUSE_TRY(remember_states(object));
    object.prepared = true;
    say_prepared(object);
    return {};
  });
}
