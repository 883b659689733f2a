// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/entry_file.h"

#include <cerrno>
#include <thread>

#include <fcntl.h>

namespace stepfuse::runtime {

namespace {

using Outcome = EntryRead::Outcome;

/// Network file systems answer so for a moment after another host changed the folder.
bool passes_by_itself(int error) { return error == ESTALE || error == EBUSY; }

/// Calls `attempt`, whose result has a member `error`, again while that may help: three times within 10 ms.
template <class Attempt>
auto with_retries(Attempt&& attempt) {
  auto result = attempt();
  for (const int wait_ms : {1, 8}) {
    if (!passes_by_itself(result.error)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    result = attempt();
  }
  return result;
}

EntryRead trouble(int error) {
  EntryRead read;
  read.outcome = error == ENOENT ? Outcome::Absent : Outcome::Trouble;
  read.error = error;
  return read;
}

EntryRead unfit(Outcome outcome, std::string why) {
  EntryRead read;
  read.outcome = outcome;
  read.why = std::move(why);
  return read;
}

Fd open_shard(FileOps& ops, int folder, const std::string& shard) {
  return Fd(ops.open_at(folder, shard.c_str(), O_RDONLY | O_DIRECTORY, 0));
}

/// Empty when the file may be believed.
std::string foreign(const struct stat& info, const ReadRules& rules) {
  if (!S_ISREG(info.st_mode)) return "is not a regular file";
  if (info.st_uid != rules.uid && !(rules.root_may_own && info.st_uid == 0))
    return fmt::format("belongs to user {}", info.st_uid);
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "is writable by others";
  return {};
}

/// Bytes read, less at the file's end; -1 with errno.
ssize_t read_all(FileOps& ops, int fd, std::span<std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t size = ops.read(fd, bytes.data() + done, bytes.size() - done);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return -1;
    if (size == 0) break;
    done += static_cast<size_t>(size);
  }
  return static_cast<ssize_t>(done);
}

void mark_as_used(FileOps& ops, int fd, const struct stat& info, const ReadRules& rules) {
  if (!rules.refresh_after) return;
  const auto now = std::chrono::system_clock::now();
  // That the mark could not be set costs an early eviction at worst.
  if (now - std::chrono::system_clock::from_time_t(info.st_mtime) >= *rules.refresh_after) ops.touch(fd);
}

EntryRead read_once(FileOps& ops, int folder, const EntryName& name, const ReadRules& rules) {
  const Fd shard = open_shard(ops, folder, name.shard);
  if (!shard) return trouble(errno);
  // Not blocking, should it be a pipe.
  const Fd file(ops.open_at(shard.get(), name.file.c_str(), O_RDONLY | O_NONBLOCK, 0));
  if (!file && errno == ELOOP) return unfit(Outcome::Foreign, "is a symbolic link");
  if (!file) return trouble(errno);
  struct stat info{};
  if (ops.stat(file.get(), &info) != 0) return trouble(errno);
  if (std::string why = foreign(info, rules); !why.empty()) return unfit(Outcome::Foreign, std::move(why));
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > kMaxEntryBytes) return unfit(Outcome::Damaged, fmt::format("has {} bytes", size));
  std::vector<std::byte> bytes(size);
  const ssize_t got = read_all(ops, file.get(), bytes);
  if (got < 0) return trouble(errno);
  auto entry = decode(std::span(bytes).first(static_cast<size_t>(got)));
  if (!entry) return unfit(Outcome::Damaged, std::move(entry.error().message));
  mark_as_used(ops, file.get(), info, rules);
  EntryRead read;
  read.outcome = Outcome::Read;
  read.entry = std::move(*entry);
  read.bytes = got;
  return read;
}

bool write_all(FileOps& ops, int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ops.write(fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(size));
  }
  return true;
}

/// A file system without fsync loses at most the entry.
bool sync(FileOps& ops, int fd) { return ops.sync(fd) == 0 || errno == EINVAL || errno == ENOTSUP; }

bool links_impossible(int error) {
  return error == EPERM || error == ENOTSUP || error == EOPNOTSUPP || error == ENOSYS || error == EMLINK;
}

/// rename() takes the temporary name away; on NFS a repeated request may find it gone although the first one worked.
int exchange(FileOps& ops, int shard, const std::string& temporary, const std::string& final_name) {
  if (ops.rename_at(shard, temporary.c_str(), final_name.c_str()) == 0) return 0;
  const int error = errno;
  struct stat info{};
  const bool is_there = error == ENOENT && ops.stat_at(shard, final_name.c_str(), &info) == 0;
  return is_there ? 0 : error;
}

EntryWrite give_final_name(FileOps& ops, int shard, const std::string& temporary, const std::string& final_name,
                           bool replace) {
  if (replace) return {exchange(ops, shard, temporary, final_name), false};
  if (ops.link_at(shard, temporary.c_str(), final_name.c_str()) == 0) return {};
  if (errno == EEXIST) return {0, true};
  if (!links_impossible(errno)) return {errno, false};
  return {exchange(ops, shard, temporary, final_name), false};
}

EntryWrite write_once(FileOps& ops, int folder, const EntryName& name, std::span<const std::byte> bytes, bool replace) {
  if (ops.make_folder_at(folder, name.shard.c_str()) != 0 && errno != EEXIST) return {errno, false};
  const Fd shard = open_shard(ops, folder, name.shard);
  if (!shard) return {errno, false};
  const std::string temporary = temporary_name();
  const Fd file(ops.open_at(shard.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR));
  if (!file) return {errno, false};
  EntryWrite result;
  if (write_all(ops, file.get(), bytes) && sync(ops, file.get())) {
    result = give_final_name(ops, shard.get(), temporary, name.file, replace);
  } else {
    result.error = errno;
  }
  // Gone already after a rename.
  ops.unlink_at(shard.get(), temporary.c_str());
  return result;
}

}  // namespace

EntryRead read_entry_file(FileOps& ops, int folder, const EntryName& name, const ReadRules& rules) {
  return with_retries([&] { return read_once(ops, folder, name, rules); });
}

EntryWrite write_entry_file(FileOps& ops, int folder, const EntryName& name, std::span<const std::byte> bytes,
                            bool replace) {
  return with_retries([&] { return write_once(ops, folder, name, bytes, replace); });
}

}  // namespace stepfuse::runtime
