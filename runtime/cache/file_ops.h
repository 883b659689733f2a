// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <utility>

namespace stepfuse::runtime {

/// An open file descriptor, closed at the end.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// The system calls the cache makes below its folder, so that a test can have one of them fail. Like the system's own
/// they return -1 and set errno.
class FileOps {
 public:
  virtual ~FileOps() = default;
  virtual int open_at(int folder, const char* name, int flags, mode_t mode);
  virtual int make_folder_at(int folder, const char* name);
  virtual int stat(int fd, struct stat* out);
  virtual int stat_at(int folder, const char* name, struct stat* out);
  virtual ssize_t read(int fd, void* bytes, size_t size);
  virtual ssize_t write(int fd, const void* bytes, size_t size);
  virtual int sync(int fd);
  virtual int link_at(int folder, const char* from, const char* to);
  virtual int rename_at(int folder, const char* from, const char* to);
  virtual int unlink_at(int folder, const char* name);
  virtual int lock(int fd);   // exclusive, without waiting
  virtual int touch(int fd);  // modified now

  static FileOps& system();
};

/// "ENOSPC (No space left on device)".
std::string error_text(int error);

}  // namespace stepfuse::runtime
