// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/pending_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace stepfuse::runtime {

namespace {

std::string name_beside(const std::string& path) {
  static std::atomic<unsigned> count{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}.tmp.{}.{:x}.{}", path, ::getpid(), now, count++);
}

/// Some file systems cannot; the file itself is safe then.
void sync_folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  static_cast<void>(::fsync(fd));
  ::close(fd);
}

}  // namespace

PendingFile::PendingFile(std::string path) : path_(std::move(path)), temporary_(name_beside(path_)) {}

PendingFile::~PendingFile() {
  if (fd_ >= 0) ::close(fd_);
  if (created_) ::unlink(temporary_.c_str());
}

tl::unexpected<Status> PendingFile::failed(std::string_view action) const {
  const int error = errno;
  return with_hint(fail(StatusCode::Io, "cannot {} '{}': {}", action, path_, std::strerror(error)),
                   "check the folder's rights and the space on its disk");
}

Outcome PendingFile::create(unsigned mode) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd_ < 0) return failed("create a file beside");
  created_ = true;
  return {};
}

Outcome PendingFile::write(const void* data, uint64_t bytes) {
  constexpr uint64_t kMostAtOnce = 1u << 30;
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd_, from, std::min(bytes, kMostAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("write");
    from += written;
    bytes -= static_cast<uint64_t>(written);
  }
  return {};
}

Outcome PendingFile::publish(bool durable) {
  if (durable && ::fsync(fd_) != 0) return failed("write");
  if (::close(std::exchange(fd_, -1)) != 0) return failed("write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failed("replace");
  created_ = false;
  if (durable) sync_folder_of(path_);
  return {};
}

}  // namespace stepfuse::runtime
