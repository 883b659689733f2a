// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/config.h"

#include "runtime/api/objects.h"

using namespace stepfuse;
using namespace stepfuse::api;

namespace stepfuse::api {

namespace {

Outcome route_waiting(OptimizerObject& object) {
  std::vector<runtime::RoutedParameter> parameters;
  for (const WaitingParameter& waiting : object.waiting)
    parameters.push_back({waiting.added.name, waiting.added.spec.shape, waiting.added.spec.param});
  STEPFUSE_ASSIGN(object.routes, object.router->route(parameters));
  for (const std::string& note : object.routes->notes) object.context->log().write_once(LogLevel::Warn, note, note);
  return {};
}

}  // namespace

Outcome add_routed(OptimizerObject& object) {
  if (!object.router) return {};
  if (object.waiting.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "a config was loaded, and no parameter is to be routed by it"),
                     "add parameters to STEPFUSE_GROUP_ROUTED, or load no config");
  if (!object.routes) STEPFUSE_TRY(route_waiting(object));
  const runtime::Routes& routes = *object.routes;
  while (object.routed_groups.size() < routes.groups.size()) {
    const runtime::RouteGroup& group = routes.groups[object.routed_groups.size()];
    object.groups.reserve(object.groups.size() + 1);
    object.routed_groups.reserve(routes.groups.size());
    STEPFUSE_ASSIGN(const uint32_t index, object.optimizer.add_group(group.optimizer, group.options));
    object.groups.push_back({group.name, group.policy});
    object.routed_groups.push_back(index);
  }
  for (size_t i = 0; i < object.waiting.size(); ++i) {
    ParameterInfo& info = object.parameters[object.waiting[i].id];
    if (info.index != kNotRouted) continue;
    info.group = object.routed_groups[routes.parameters[i].group];
    STEPFUSE_ASSIGN(info.index, object.optimizer.add_parameter(info.group, object.waiting[i].added));
  }
  return {};
}

}  // namespace stepfuse::api

namespace {

/// The settings that an optimizer's config asks for and its context has otherwise: they come too late.
Outcome note_settings(OptimizerObject& object, runtime::Config& config) {
  for (const runtime::SettingSource& setting : config.settings) {
    if (object.context->settings().text(setting.name) == setting.text) continue;
    const std::string note = fmt::format("{}: settings.{} has no effect on an optimizer: it belongs to the context",
                                         setting.where, setting.name);
    if (config.strict)
      return with_hint(fail(StatusCode::InvalidData, "{}", note), "give the file to the context too, as config_path");
    config.notes.push_back(note);
  }
  return {};
}

Outcome take_config(OptimizerObject& object, Result<runtime::Config> config) {
  if (object.prepared)
    return with_hint(fail(StatusCode::InvalidArgument, "load_config after prepare"),
                     "add everything first; prepare closes the list");
  if (object.router)
    return with_hint(fail(StatusCode::InvalidArgument, "a config was loaded before"),
                     "an optimizer has one config; put all groups into it");
  if (!config) return fail(std::move(config.error()));
  STEPFUSE_TRY(note_settings(object, *config));
  STEPFUSE_ASSIGN(object.router, runtime::Router::create(std::move(*config)));
  return {};
}

}  // namespace

stepfuse_status stepfuse_optimizer_load_config(stepfuse_optimizer* optimizer, const char* path) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(path, "path"));
    STEPFUSE_TRY(take_config(object, runtime::load_config(path)));
    return {};
  });
}

stepfuse_status stepfuse_optimizer_load_config_text(stepfuse_optimizer* optimizer, const char* toml) {
  return with_optimizer(optimizer, [&](OptimizerObject& object) -> Reply {
    STEPFUSE_TRY(require(toml, "toml"));
    STEPFUSE_TRY(take_config(object, runtime::parse_config(toml, "<config>")));
    return {};
  });
}
