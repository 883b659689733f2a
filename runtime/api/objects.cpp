// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/objects.h"

#include "ir/support/nearest.h"

#include <cmath>
#include <cstring>

namespace stepfuse::api {

Result<ParameterInfo*> OptimizerObject::parameter(uint32_t id) {
  if (id < parameters.size()) return &parameters[id];
  return with_hint(
      fail(StatusCode::InvalidArgument, "there is no parameter number {}; {} were added", id, parameters.size()),
      "use what add_parameter of this optimizer returned");
}

Result<ParameterInfo*> OptimizerObject::routed_parameter(uint32_t id, std::string_view call) {
  STEPFUSE_ASSIGN(ParameterInfo * info, parameter(id));
  if (info->index != kNotRouted) return info;
  return with_hint(
      fail(StatusCode::InvalidArgument, "{} before prepare, for the routed parameter '{}'", call, info->name),
      "it gets its group in prepare");
}

double OptimizerObject::effective(uint32_t group, std::string_view key, double value) const {
  const bool changes = group < groups.size() && key == "lr" && std::isfinite(value);
  return changes ? groups[group].policy.effective_lr(value) : value;
}

tl::unexpected<Status> unknown_state(const ParameterInfo& info, std::string_view key) {
  std::vector<std::string_view> keys;
  for (const StateInfo& state : info.states) keys.push_back(state.key);
  return with_hint(fail(StatusCode::InvalidArgument, "parameter '{}' has no state '{}'", info.name, key),
                   suggestion(key, keys,
                              keys.empty() ? std::string("it has no states")
                                           : fmt::format("its states are {}", fmt::join(keys, ", "))));
}

Outcome OptimizerObject::require_prepared(std::string_view call) const {
  if (prepared) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "{} before prepare", call),
                   "call prepare once after the last add_parameter");
}

runtime::OptimizerSettings optimizer_settings(std::shared_ptr<const runtime::Context> context) {
  const runtime::Settings& from = context->settings();
  runtime::OptimizerSettings settings;
  settings.mode = from.is("mode", "strict") ? ir::Mode::Strict : ir::Mode::Default;
  settings.target = from.text("target");
  settings.threads = static_cast<int>(from.number("threads"));
  settings.device = static_cast<int>(from.number("device"));
  settings.runner.disabled = from.list("disable");
  settings.context = std::move(context);
  return settings;
}

Reply copy_out(const void* bytes, size_t count, void* buffer, size_t size, size_t* needed) {
  if (buffer == nullptr && size > 0)
    return with_hint(fail(StatusCode::InvalidArgument, "the buffer is null, and its size is {}", size),
                     "pass a null buffer with size 0 to ask for the size");
  if (buffer == nullptr && needed == nullptr)
    return with_hint(fail(StatusCode::InvalidArgument, "buffer and needed are both null"),
                     "pass one of them, else the call has no effect");
  if (needed != nullptr) *needed = count;
  if (buffer == nullptr) return {};
  if (size < count)
    return tl::unexpected(Failure(STEPFUSE_BUFFER_TOO_SMALL,
                                  fmt::format("the buffer has {} bytes, {} are needed", size, count),
                                  "ask with a null buffer of size 0 first"));
  if (count > 0) std::memcpy(buffer, bytes, count);
  return {};
}

}  // namespace stepfuse::api
