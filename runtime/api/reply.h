// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The border of the C interface: what a function answers, and the thread's last error.
#pragma once

#include "ir/support/status.h"
#include "stepfuse/stepfuse.h"

#include <new>

namespace stepfuse::api {

stepfuse_status status_of(StatusCode code);

/// An error of the C interface, which has more codes than the layers below.
struct Failure {
  stepfuse_status code = STEPFUSE_INTERNAL;
  std::string message;
  std::string hint;

  Failure(stepfuse_status failed, std::string what, std::string mend)
      : code(failed), message(std::move(what)), hint(std::move(mend)) {}
  Failure(Status status)  // implicit, so that STEPFUSE_TRY works
      : Failure(status_of(status.code), std::move(status.message), std::move(status.hint)) {}
};

/// What the body of a C function returns.
using Reply = tl::expected<void, Failure>;

/// Remembers an error for stepfuse_last_error and gives its code. If there is no memory for the text, it says so.
stepfuse_status remember(const Failure& failure) noexcept;
/// The same for the exception that is being handled.
stepfuse_status remember_exception() noexcept;

/// Runs the body of a C function; nothing is thrown.
template <class Body>
stepfuse_status answer(Body body) noexcept {
  try {
    const Reply reply = body();
    return reply ? STEPFUSE_OK : remember(reply.error());
  } catch (...) {
    return remember_exception();
  }
}

/// Refuses a null argument by its name.
Outcome require(const void* argument, const char* name);

}  // namespace stepfuse::api
