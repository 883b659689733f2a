// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/status.h"

namespace stepfuse {

int exit_code(StatusCode code) {
  switch (code) {
    case StatusCode::InvalidArgument:
    case StatusCode::Unsupported:
      return 2;
    case StatusCode::NotFound:
    case StatusCode::Environment:
    case StatusCode::Io:
      return 3;
    case StatusCode::InvalidData:
    case StatusCode::Failed:
    case StatusCode::Internal:
      return 1;
  }
  return 1;
}

void throw_internal(const char* file, int line, const std::string& message) {
  throw InternalError(fmt::format("{} ({}:{})", message, file, line));
}

}  // namespace stepfuse
