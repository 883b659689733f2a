// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/entry.h"
#include "runtime/cache/file_ops.h"
#include "runtime/cache/names.h"

#include <chrono>
#include <optional>
#include <string>

namespace stepfuse::runtime {

/// What reading one file came to.
struct EntryRead {
  enum class Outcome : uint8_t {
    Read,
    Absent,
    Trouble,  // a system call failed: the file may be good
    Damaged,  // the content is wrong: the file is no use to anyone
    Foreign   // not a regular file that only its owner can write: its content was not looked at
  };
  Outcome outcome = Outcome::Absent;
  std::optional<Entry> entry;  // Read
  int error = 0;               // Trouble: errno
  std::string why;             // Damaged, Foreign
  int64_t bytes = 0;
};

struct ReadRules {
  uid_t uid = 0;
  bool root_may_own = false;                          // of a read-only folder
  std::optional<std::chrono::seconds> refresh_after;  // a file read is marked as used when its time is older
};

EntryRead read_entry_file(FileOps& ops, int folder, const EntryName& name, const ReadRules& rules);

struct EntryWrite {
  int error = 0;         // errno; 0: the entry is there
  bool existed = false;  // another process was first, and its file was kept
};

/// Writes a temporary file beside the entry and gives it the final name when it is complete, so that nobody ever sees a
/// part of it. With `replace` a file of that name is exchanged.
EntryWrite write_entry_file(FileOps& ops, int folder, const EntryName& name, std::span<const std::byte> bytes,
                            bool replace);

}  // namespace stepfuse::runtime
