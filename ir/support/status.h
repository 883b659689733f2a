// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

namespace stepfuse {

/// Whose fault, and therefore which exit code of the command (see exit_code()).
enum class StatusCode : uint8_t {
  InvalidArgument,  // a name, value or option the user can mend: exit 2
  InvalidData,      // a file or text that is not what it claims: exit 1
  NotFound,         // a file that is not there: exit 3
  Unsupported,      // legal, but not in this version: exit 2
  Environment,      // a library, CPU feature or right that is missing: exit 3
  Io,               // reading or writing failed: exit 3
  Failed,           // a check that did not hold: exit 1
  Internal          // our fault: exit 1
};

/// An error: what and where, and how to mend it. There is no "ok" Status; success is a Result that holds a value.
struct Status {
  StatusCode code = StatusCode::Internal;
  std::string message;
  std::string hint;
};

template <class T>
using Result = tl::expected<T, Status>;
using Outcome = Result<void>;

template <class... Args>
tl::unexpected<Status> fail(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Status>(Status{code, fmt::format(format, std::forward<Args>(args)...), {}});
}

inline tl::unexpected<Status> fail(Status status) { return tl::unexpected<Status>(std::move(status)); }

/// The same error with advice attached: `return with_hint(fail(...), "install libdnnl2")`.
inline tl::unexpected<Status> with_hint(tl::unexpected<Status> error, std::string hint) {
  error.value().hint = std::move(hint);
  return error;
}

int exit_code(StatusCode code);

/// A broken invariant of ours; never thrown for user input.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void throw_internal(const char* file, int line, const std::string& message);

}  // namespace stepfuse

#define STEPFUSE_CHECK(condition, ...)                                                          \
  do {                                                                                          \
    if (!(condition)) ::stepfuse::throw_internal(__FILE__, __LINE__, fmt::format(__VA_ARGS__)); \
  } while (false)

#define STEPFUSE_CONCAT_INNER(a, b) a##b
#define STEPFUSE_CONCAT(a, b) STEPFUSE_CONCAT_INNER(a, b)

/// Returns the error of a Result<T> from the enclosing function, else moves its value into `lhs`.
#define STEPFUSE_ASSIGN(lhs, expression)                                            \
  auto STEPFUSE_CONCAT(result_, __LINE__) = (expression);                           \
  if (!STEPFUSE_CONCAT(result_, __LINE__))                                          \
    return ::stepfuse::fail(std::move(STEPFUSE_CONCAT(result_, __LINE__).error())); \
  lhs = std::move(*STEPFUSE_CONCAT(result_, __LINE__))

#define STEPFUSE_TRY(expression)                                                                       \
  do {                                                                                                 \
    if (auto outcome_ = (expression); !outcome_) return ::stepfuse::fail(std::move(outcome_.error())); \
  } while (false)
