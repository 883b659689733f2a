// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace stepfuse::runtime {

/// A file that is written beside `path` and takes its name when it is whole, or disappears: `path` is either its old
/// self or the new one. Its name holds the process and the time, so that what a killed process left is in nobody's way.
class PendingFile {
 public:
  explicit PendingFile(std::string path);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  Outcome create(unsigned mode);  // as for open(2)
  Outcome write(const void* data, uint64_t bytes);
  Outcome write(std::string_view text) { return write(text.data(), text.size()); }
  /// Once. With `durable` the file is on the disk before it takes the name.
  Outcome publish(bool durable);

 private:
  tl::unexpected<Status> failed(std::string_view action) const;

  std::string path_, temporary_;
  int fd_ = -1;
  bool created_ = false;
};

}  // namespace stepfuse::runtime
