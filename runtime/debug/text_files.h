// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <string>
#include <string_view>

namespace stepfuse::runtime {

/// A folder for its owner alone, with the folders above it where they are missing.
Outcome make_private_folder(const std::string& path);

/// Writes beside `path` and renames, so that `path` is what it was or whole.
Outcome write_whole_file(const std::string& path, std::string_view text);

/// The whole file; Io says why not. More than `most` bytes are InvalidData.
Result<std::string> read_whole_file(const std::string& path, size_t most);

/// `name` as one part of a path: what is not a letter, a digit or one of "._-" becomes "_".
std::string file_name_of(std::string_view name);

/// Eight hex digits that stand for the text.
std::string short_hash(std::string_view text);

}  // namespace stepfuse::runtime
