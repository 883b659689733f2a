// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/reply.h"

#include "ir/support/version.h"

namespace stepfuse::api {

namespace {

/// Texts that the pointers may stand on; a text that could not be copied leaves them at a literal.
struct LastError {
  std::string message_text, hint_text;
  const char* message = "";
  const char* hint = "";
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

}  // namespace

stepfuse_status status_of(StatusCode code) {
  switch (code) {
    case StatusCode::InvalidArgument:
      return STEPFUSE_INVALID_ARGUMENT;
    case StatusCode::InvalidData:
      return STEPFUSE_INVALID_DATA;
    case StatusCode::NotFound:
      return STEPFUSE_NOT_FOUND;
    case StatusCode::Unsupported:
      return STEPFUSE_UNSUPPORTED;
    case StatusCode::Environment:
      return STEPFUSE_ENVIRONMENT;
    case StatusCode::Io:
      return STEPFUSE_IO;
    case StatusCode::Failed:
      return STEPFUSE_FAILED;
    case StatusCode::Internal:
      return STEPFUSE_INTERNAL;
  }
  return STEPFUSE_INTERNAL;
}

stepfuse_status remember(const Failure& failure) noexcept {
  LastError& last = last_error();
  try {
    last.message_text = failure.message;
    last.hint_text = failure.hint;
    last.message = last.message_text.c_str();
    last.hint = last.hint_text.c_str();
  } catch (...) {
    last.message = stepfuse_status_name(failure.code);
    last.hint = "";
  }
  return failure.code;
}

stepfuse_status remember_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    LastError& last = last_error();
    last.message = "out of memory";
    last.hint = "use fewer or smaller parameters";
    return STEPFUSE_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    try {
      return remember(
          {STEPFUSE_INTERNAL, error.what(), "this is a fault of Stepfuse; please report it with the rule and shapes"});
    } catch (...) {
      return remember_exception();
    }
  } catch (...) {
    LastError& last = last_error();
    last.message = "an exception of unknown type";
    last.hint = "it may come from a callback; callbacks must not throw";
    return STEPFUSE_INTERNAL;
  }
}

Outcome require(const void* argument, const char* name) {
  if (argument != nullptr) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "argument '{}' is null", name),
                   "stepfuse.h says which arguments may be null");
}

}  // namespace stepfuse::api

using namespace stepfuse;

const char* stepfuse_version(void) { return kVersion; }

int32_t stepfuse_abi_version(void) { return STEPFUSE_ABI_VERSION; }

const char* stepfuse_status_name(stepfuse_status status) {
  static constexpr const char* kNames[] = {
      "ok", "invalid argument", "invalid data", "not found", "unsupported",   "environment",
      "io", "failed",           "internal",     "busy",      "out of memory", "buffer too small"};
  constexpr auto kCount = static_cast<stepfuse_status>(std::size(kNames));
  return status >= 0 && status < kCount ? kNames[status] : "unknown status";
}

const char* stepfuse_last_error(void) { return api::last_error().message; }

const char* stepfuse_last_hint(void) { return api::last_error().hint; }
