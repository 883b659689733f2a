// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <string>

namespace stepfuse::tools {

/// The whole of a file, or of stdin for "-".
Result<std::string> read_text(const std::string& path);

/// Writes beside `path` and renames, so that `path` is either what it was or whole.
Outcome write_text(const std::string& path, const std::string& text);

/// To the file of --output, or to stdout where there is none.
Outcome write_result(const std::string& path, const std::string& text);

/// Fails if no file can be made at `path`: a missing folder is found before an hour of work, not after.
Outcome check_writable(const std::string& path);

}  // namespace stepfuse::tools
