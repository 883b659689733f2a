// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/context.h"

#include "runtime/api/config.h"
#include "runtime/api/objects.h"

using namespace stepfuse;
using namespace stepfuse::api;

namespace {

int32_t c_level(LogLevel level) {
  switch (level) {
    case LogLevel::Error:
      return STEPFUSE_LOG_ERROR;
    case LogLevel::Warn:
      return STEPFUSE_LOG_WARN;
    case LogLevel::Info:
      return STEPFUSE_LOG_INFO;
    case LogLevel::Debug:
      return STEPFUSE_LOG_DEBUG;
  }
  return STEPFUSE_LOG_DEBUG;
}

/// Of an allocator's fields: both functions, or nothing.
Outcome check_pair(bool allocates, bool releases, bool has_user, std::string_view prefix) {
  if (allocates != releases)
    return with_hint(fail(StatusCode::InvalidArgument, "context options: {0}{1} is set, {0}{2} is null", prefix,
                          allocates ? "allocate" : "release", allocates ? "release" : "allocate"),
                     "give both functions, or neither");
  if (!allocates && has_user)
    return with_hint(
        fail(StatusCode::InvalidArgument, "context options: {0}allocator_user is set without {0}allocate", prefix),
        fmt::format("give {0}allocate and {0}release, or leave it null", prefix));
  return {};
}

Outcome set_allocators(const stepfuse_context_options& options, runtime::Context::Options& out) {
  STEPFUSE_TRY(
      check_pair(options.allocate != nullptr, options.release != nullptr, options.allocator_user != nullptr, ""));
  STEPFUSE_TRY(check_pair(options.device_allocate != nullptr, options.device_release != nullptr,
                          options.device_allocator_user != nullptr, "device_"));
  if (options.allocate != nullptr) out.allocator = {options.allocate, options.release, options.allocator_user};
  out.device_allocator = {options.device_allocate, options.device_release, options.device_allocator_user};
  return {};
}

Result<runtime::Context::Options> to_runtime(const stepfuse_context_options& options) {
  runtime::Context::Options out;
  STEPFUSE_ASSIGN(const ir::OptionList settings,
                  to_options(options.settings, options.settings_count, "context options: settings"));
  for (const auto& [key, value] : settings) out.flags.push_back({key, value, "context options"});
  if (options.config_path != nullptr) {
    STEPFUSE_ASSIGN(runtime::Config config, runtime::load_config(options.config_path));
    out.file = std::move(config.settings);
  }
  if (options.log != nullptr)
    out.log = [log = options.log, user = options.log_user](LogLevel level, std::string_view message) {
      log(user, c_level(level), std::string(message).c_str());
    };
  STEPFUSE_TRY(set_allocators(options, out));
  return out;
}

}  // namespace

stepfuse_status stepfuse_context_create(const stepfuse_context_options* options, stepfuse_context** out) {
  return answer([&]() -> Reply {
    STEPFUSE_TRY(require(out, "out"));
    STEPFUSE_ASSIGN(const stepfuse_context_options given, read_struct(options, "context_options"));
    STEPFUSE_ASSIGN(const runtime::Context::Options wanted, to_runtime(given));
    auto object = std::make_shared<ContextObject>();
    STEPFUSE_ASSIGN(object->context, runtime::Context::create(wanted));
    *out = static_cast<stepfuse_context*>(insert_handle(HandleKind::Context, std::move(object)));
    return {};
  });
}

stepfuse_status stepfuse_context_destroy(stepfuse_context* context) {
  if (context == nullptr) return STEPFUSE_OK;
  return answer([&]() -> Reply {
    STEPFUSE_TRY(remove_handle(HandleKind::Context, context).map([](const auto&) {}));
    return {};
  });
}
