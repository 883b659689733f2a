// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/file_ops.h"

#include <cstring>
#include <sys/file.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace stepfuse::runtime {

namespace {

constexpr mode_t kOnlyOwner = 0700;

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

int FileOps::open_at(int folder, const char* name, int flags, mode_t mode) {
  return ::openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW, mode);
}
int FileOps::make_folder_at(int folder, const char* name) { return ::mkdirat(folder, name, kOnlyOwner); }
int FileOps::stat(int fd, struct stat* out) { return ::fstat(fd, out); }
int FileOps::stat_at(int folder, const char* name, struct stat* out) {
  return ::fstatat(folder, name, out, AT_SYMLINK_NOFOLLOW);
}
ssize_t FileOps::read(int fd, void* bytes, size_t size) { return ::read(fd, bytes, size); }
ssize_t FileOps::write(int fd, const void* bytes, size_t size) { return ::write(fd, bytes, size); }
int FileOps::sync(int fd) { return ::fsync(fd); }
int FileOps::link_at(int folder, const char* from, const char* to) { return ::linkat(folder, from, folder, to, 0); }
int FileOps::rename_at(int folder, const char* from, const char* to) { return ::renameat(folder, from, folder, to); }
int FileOps::unlink_at(int folder, const char* name) { return ::unlinkat(folder, name, 0); }
int FileOps::lock(int fd) { return ::flock(fd, LOCK_EX | LOCK_NB); }
int FileOps::touch(int fd) { return ::futimens(fd, nullptr); }

FileOps& FileOps::system() {
  static FileOps ops;
  return ops;
}

std::string error_text(int error) {
  const char* name = strerrorname_np(error);
  return fmt::format("{} ({})", name != nullptr ? name : "error", std::strerror(error));
}

}  // namespace stepfuse::runtime
