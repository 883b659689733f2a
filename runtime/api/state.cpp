// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// States, step counts and checkpoints behind the C interface.
#include "runtime/api/objects.h"
#include "runtime/state_io.h"

#include <span>

using namespace stepfuse;
using namespace stepfuse::api;

stepfuse_status stepfuse_optimizer_state_count(stepfuse_optimizer* optimizer, uint32_t id, uint32_t* count) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("states"));
    STEPFUSE_TRY(require(count, "count"));
    STEPFUSE_ASSIGN(const ParameterInfo* info, object.parameter(id));
    *count = static_cast<uint32_t>(info->states.size());
    return {};
  });
}

stepfuse_status stepfuse_optimizer_state_key(stepfuse_optimizer* optimizer, uint32_t id, uint32_t index,
                                             const char** key) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("states"));
    STEPFUSE_TRY(require(key, "key"));
    STEPFUSE_ASSIGN(const ParameterInfo* info, object.parameter(id));
    if (index >= info->states.size())
      return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}' has no state number {}", info->name, index),
                       fmt::format("it has {}", info->states.size()));
    *key = info->states[index].key.c_str();
    return {};
  });
}

stepfuse_status stepfuse_optimizer_state(stepfuse_optimizer* optimizer, uint32_t id, const char* key,
                                         stepfuse_tensor* out) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("states"));
    STEPFUSE_TRY(require(key, "key"));
    STEPFUSE_TRY(require(out, "out"));
    STEPFUSE_ASSIGN(const ParameterInfo* info, object.parameter(id));
    STEPFUSE_ASSIGN(const std::vector<runtime::StateView> views, object.optimizer.states(info->index));
    for (size_t i = 0; i < views.size(); ++i) {
      if (views[i].key != key) continue;
      const Layout& layout = info->states[i].layout;
      *out = stepfuse_cpu_tensor(views[i].data, from_ir(layout.dtype), static_cast<int32_t>(layout.shape.size()),
                                 layout.shape.data());
      out->device = device_of(object.optimizer.device());
      out->strides = layout.strides.data();
      return {};
    }
    return unknown_state(*info, key);
  });
}

stepfuse_status stepfuse_optimizer_steps(stepfuse_optimizer* optimizer, uint32_t id, int64_t* steps) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(steps, "steps"));
    STEPFUSE_ASSIGN(const ParameterInfo* info, object.parameter(id));
    *steps = 0;
    if (info->index != kNotRouted) {
      STEPFUSE_ASSIGN(*steps, object.optimizer.steps(info->index));
    }
    return {};
  });
}

stepfuse_status stepfuse_optimizer_set_steps(stepfuse_optimizer* optimizer, uint32_t id, int64_t steps) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_ASSIGN(const ParameterInfo* info, object.routed_parameter(id, "set_steps"));
    // Bias corrections are exact for step counts up to 2^53.
    if (steps < 0 || steps >= int64_t{1} << 53)
      return with_hint(fail(StatusCode::InvalidArgument, "{} is not a number of steps", steps), "use 0 to 2^53 - 1");
    // There are no states before that could be said to be there.
    STEPFUSE_TRY(object.require_prepared("set_steps"));
    object.optimizer.set_steps(info->index, steps);
    return {};
  });
}

stepfuse_status stepfuse_optimizer_state_save(stepfuse_optimizer* optimizer, const char* path) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("state_save"));
    STEPFUSE_TRY(require(path, "path"));
    STEPFUSE_TRY(runtime::save_state(object.optimizer, path));
    return {};
  });
}

stepfuse_status stepfuse_optimizer_state_load(stepfuse_optimizer* optimizer, const char* path) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("state_load"));
    STEPFUSE_TRY(require(path, "path"));
    STEPFUSE_TRY(runtime::load_state(object.optimizer, path));
    return {};
  });
}

stepfuse_status stepfuse_optimizer_state_export(stepfuse_optimizer* optimizer, void* buffer, size_t size,
                                                size_t* needed) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("state_export"));
    STEPFUSE_ASSIGN(const std::vector<std::byte> bytes, runtime::export_state(object.optimizer));
    return copy_out(bytes.data(), bytes.size(), buffer, size, needed);
  });
}

stepfuse_status stepfuse_optimizer_state_import(stepfuse_optimizer* optimizer, const void* data, size_t size) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(object.require_prepared("state_import"));
    STEPFUSE_TRY(require(data, "data"));
    STEPFUSE_TRY(runtime::import_state(object.optimizer, std::span(static_cast<const std::byte*>(data), size)));
    return {};
  });
}
