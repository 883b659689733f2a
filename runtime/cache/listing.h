// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/file_ops.h"

#include <functional>
#include <string>
#include <sys/stat.h>

namespace stepfuse::runtime {

/// A file in a shard of a cache folder: an entry, or what a writer has not finished.
struct ListedFile {
  int shard;  // open while it is visited
  std::string shard_name;
  std::string name;
  bool temporary;
  struct stat info;
};

/// Visits all of them, in no order. A file that disappears meanwhile is left out; other files are not ours. The error
/// is the errno of the first folder that could not be read, 0 if there was none.
int for_each_file(FileOps& ops, int folder, const std::function<void(const ListedFile&)>& visit);

}  // namespace stepfuse::runtime
