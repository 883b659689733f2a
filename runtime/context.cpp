// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/context.h"

#include "compiler/pass.h"
#include "runtime/debug/trace.h"
#include "runtime/kernel_cache.h"

#include <cstdlib>
#include <utility>

namespace stepfuse::runtime {

namespace {

std::optional<LogLevel> threshold_of(const Settings& settings) {
  for (LogLevel level : {LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug})
    if (settings.is("log", log_level_name(level))) return level;
  return std::nullopt;  // off
}

}  // namespace

Allocator default_allocator() {
  return {[](void*, size_t bytes, size_t alignment) {
            return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
          },
          [](void*, void* memory, size_t) { std::free(memory); }, nullptr};
}

Context::Context(Settings settings, const Options& options)
    : settings_(std::move(settings)),
      log_(threshold_of(settings_), options.log),
      allocator_(options.allocator),
      device_allocator_(options.device_allocator),
      kernels_(KernelCache::open(settings_)),
      trace_(settings_.text("trace").empty() ? nullptr : Trace::open(settings_.text("trace"), log_)) {}

Context::~Context() {
  if (trace_ != nullptr) trace_->write(log_);
}

Result<std::shared_ptr<const Context>> Context::create(const Options& options) {
  STEPFUSE_ASSIGN(Settings settings, Settings::resolve(options.flags, options.environment, options.file));
  const Settings::Value& disabled = settings.at("disable");
  for (const std::string& pass : disabled.list)
    if (const auto found = compiler::find_pass(pass); !found)
      return with_hint(
          fail(found.error().code, "{}: disable={}: {}", disabled.where, disabled.text, found.error().message),
          found.error().hint);
  return std::shared_ptr<const Context>(new Context(std::move(settings), options));
}

}  // namespace stepfuse::runtime
