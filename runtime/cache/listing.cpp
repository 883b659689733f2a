// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/listing.h"

#include "runtime/cache/names.h"

#include <cerrno>
#include <memory>
#include <vector>

#include <dirent.h>
#include <fcntl.h>

namespace stepfuse::runtime {

namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

/// All names first, so that a visitor may remove what it is shown.
int names_in(FileOps& ops, int folder, std::vector<std::string>& names) {
  const int again = ops.open_at(folder, ".", O_RDONLY | O_DIRECTORY, 0);
  if (again < 0) return errno;
  const std::unique_ptr<DIR, CloseFolder> stream(::fdopendir(again));
  if (stream == nullptr) {
    const int error = errno;
    const Fd closes(again);
    return error;
  }
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) names.emplace_back(entry->d_name);
  return errno;
}

int visit_shard(FileOps& ops, int folder, const std::string& shard_name,
                const std::function<void(const ListedFile&)>& visit) {
  const Fd shard(ops.open_at(folder, shard_name.c_str(), O_RDONLY | O_DIRECTORY, 0));
  if (!shard) return errno;
  std::vector<std::string> names;
  const int error = names_in(ops, shard.get(), names);
  for (const std::string& name : names) {
    ListedFile file{shard.get(), shard_name, name, is_temporary_name(name), {}};
    if (!file.temporary && !is_entry_name(name)) continue;
    if (ops.stat_at(shard.get(), name.c_str(), &file.info) == 0) visit(file);
  }
  return error;
}

}  // namespace

int for_each_file(FileOps& ops, int folder, const std::function<void(const ListedFile&)>& visit) {
  std::vector<std::string> names;
  int error = names_in(ops, folder, names);
  for (const std::string& name : names) {
    if (!is_shard_name(name)) continue;
    const int trouble = visit_shard(ops, folder, name, visit);
    if (error == 0) error = trouble;
  }
  return error;
}

}  // namespace stepfuse::runtime
