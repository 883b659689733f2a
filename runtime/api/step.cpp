// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// bind, set and step behind the C interface.
#include "runtime/api/objects.h"

#include <algorithm>
#include <span>

using namespace stepfuse;
using namespace stepfuse::api;

namespace {

Result<void*> state_address(const ParameterInfo& info, const stepfuse_state_tensor& given, stepfuse_device device) {
  STEPFUSE_TRY(require(given.key, "binding.states[].key"));
  const auto it = std::find_if(info.states.begin(), info.states.end(),
                               [&](const StateInfo& state) { return state.key == given.key; });
  if (it == info.states.end()) return unknown_state(info, given.key);
  return address_of(given.tensor, it->layout, device, fmt::format("state '{}' of '{}'", given.key, info.name));
}

Outcome bind_states(const ParameterInfo& info, const stepfuse_binding& given, stepfuse_device device,
                    runtime::MemoryBinding& out) {
  if (given.states_count > 0 && given.states == nullptr)
    return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}': states is null, and its count is {}", info.name,
                          given.states_count),
                     "give the array, or a count of 0");
  if (given.states_count > 0 && !info.caller_states)
    return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}': the optimizer owns its states", info.name),
                     "add the parameter with STEPFUSE_CALLER_STATES, or bind no states");
  for (const stepfuse_state_tensor& state : std::span(given.states, given.states_count)) {
    STEPFUSE_ASSIGN(void* const address, state_address(info, state, device));
    out.states.emplace_back(state.key, address);
  }
  return {};
}

Result<runtime::MemoryBinding> to_runtime(const ParameterInfo& info, const stepfuse_binding& given,
                                          stepfuse_device device) {
  runtime::MemoryBinding out;
  STEPFUSE_TRY(require(given.param, "binding.param"));
  if (given.master != nullptr)
    return with_hint(fail(StatusCode::Unsupported, "parameter '{}': master copies are not yet supported", info.name),
                     "leave master null");
  STEPFUSE_ASSIGN(out.data, address_of(*given.param, info.param, device, fmt::format("parameter '{}'", info.name)));
  if (given.grad != nullptr) {
    STEPFUSE_ASSIGN(out.gradient,
                    address_of(*given.grad, info.grad, device, fmt::format("the gradient of '{}'", info.name)));
  }
  STEPFUSE_TRY(bind_states(info, given, device, out));
  return out;
}

/// Fields that exist for later versions.
Outcome check_step_fields(const stepfuse_step_args& args, const runtime::Device& device) {
  const std::pair<const void*, const char*> later[] = {
      {args.loss_scale, "loss_scale"}, {args.found_inf, "found_inf"}, {args.clip_coef, "clip_coef"}, {args.lr, "lr"}};
  for (const auto& [pointer, name] : later)
    if (pointer != nullptr)
      return with_hint(fail(StatusCode::Unsupported, "step: a device pointer for {} is not yet supported", name),
                       "leave it null; scalars of the step are given by value");
  if (args.stream != nullptr && device.is_host())
    return with_hint(fail(StatusCode::InvalidArgument, "step: a CPU has no streams"), "leave stream null");
  if (args.scalars == nullptr && args.scalars_count > 0)
    return with_hint(
        fail(StatusCode::InvalidArgument, "step: scalars is null, and its count is {}", args.scalars_count),
        "give the array, or a count of 0");
  return {};
}

Outcome set_all(OptimizerObject& object, std::span<const stepfuse_scalar> scalars) {
  for (const stepfuse_scalar& scalar : scalars) {
    STEPFUSE_TRY(require(scalar.key, "scalars[].key"));
    STEPFUSE_TRY(
        object.optimizer.check_set(scalar.group, scalar.key, object.effective(scalar.group, scalar.key, scalar.value)));
  }
  for (const stepfuse_scalar& scalar : scalars)
    STEPFUSE_TRY(
        object.optimizer.set(scalar.group, scalar.key, object.effective(scalar.group, scalar.key, scalar.value)));
  return {};
}

}  // namespace

stepfuse_status stepfuse_optimizer_bind(stepfuse_optimizer* optimizer, uint32_t id, const stepfuse_binding* binding) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("bind"));
    STEPFUSE_ASSIGN(const ParameterInfo* info, object.parameter(id));
    STEPFUSE_TRY(require(binding, "binding"));
    STEPFUSE_ASSIGN(const stepfuse_binding given, read_struct(binding, "binding"));
    STEPFUSE_ASSIGN(const runtime::MemoryBinding memory,
                    to_runtime(*info, given, device_of(object.optimizer.device())));
    STEPFUSE_TRY(object.optimizer.bind(info->index, memory));
    return {};
  });
}

stepfuse_status stepfuse_optimizer_set(stepfuse_optimizer* optimizer, uint32_t group, const char* key, double value) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(key, "key"));
    STEPFUSE_TRY(object.optimizer.set(group, key, object.effective(group, key, value)));
    return {};
  });
}

stepfuse_status stepfuse_optimizer_step(stepfuse_optimizer* optimizer, const stepfuse_step_args* args) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("step"));
    void* stream = nullptr;
    if (args != nullptr) {
      STEPFUSE_ASSIGN(const stepfuse_step_args given, read_struct(args, "step_args"));
      STEPFUSE_TRY(check_step_fields(given, object.optimizer.device()));
      STEPFUSE_TRY(set_all(object, std::span(given.scalars, given.scalars_count)));
      stream = given.stream;
    }
    STEPFUSE_TRY(object.optimizer.step(stream));
    return {};
  });
}

stepfuse_status stepfuse_optimizer_refresh(stepfuse_optimizer* optimizer, void* stream) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("refresh"));
    STEPFUSE_TRY(object.optimizer.refresh(stream));
    return {};
  });
}
