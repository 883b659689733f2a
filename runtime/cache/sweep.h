// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/file_ops.h"
#include "runtime/cache/metrics.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

namespace stepfuse::runtime {

using std::chrono::seconds;

struct SweepAges {
  seconds young{10};               // an entry this young is never evicted: its writer may be about to read it
  seconds abandoned{3600};         // a temporary file of an unknown writer is removed after this
  seconds stuck{3600};             // a lock held this long without a finished sweep is ignored
  seconds between_processes{600};  // a new process leaves a folder alone that was swept this recently
  seconds between_rooms{10};       // one process sweeps a full disk this seldom
};

struct SweepGoal {
  int64_t above = 0;                  // evict when entries take more bytes than this ...
  int64_t down_to = 0;                // ... until they take no more than this
  std::optional<seconds> older_than;  // and whatever was last used longer ago
};

struct SweepReport {
  int64_t bytes = 0;  // of entries that are left
  int64_t entries = 0;
  int64_t evicted = 0;
  int64_t evicted_bytes = 0;
  int64_t abandoned = 0;  // temporary files removed
  int error = 0;          // errno of the first folder or file that resisted; 0 if none did
};

/// One pass over the folder: removes abandoned temporary files, then entries by the goal, the longest unused first.
/// Correct with any number of processes at once; a file that is gone already does no harm.
SweepReport sweep_folder(FileOps& ops, int folder, const SweepGoal& goal, const SweepAges& ages);

/// Keeps a live folder within a bound. Looks at the folder seldom: when the first entry is written, unless another
/// process has just done so, and then whenever this process has written a good part of the bound.
class Sweeper {
 public:
  Sweeper(FileOps& ops, int64_t max_bytes, const SweepAges& ages, CacheCounters& counters)
      : ops_(ops), max_bytes_(max_bytes), ages_(ages), counters_(counters) {}

  void after_publish(int folder, int64_t bytes);
  /// For a writer that found the disk full: sweeps, if this process has not just done so. Says whether it did.
  bool make_room(int folder);

 private:
  bool due(int64_t bytes);
  void sweep(int folder);
  bool swept_recently(const struct stat& stamp) const;

  FileOps& ops_;
  int64_t max_bytes_;
  SweepAges ages_;
  CacheCounters& counters_;
  std::mutex mutex_;
  bool first_ = true;
  std::optional<std::chrono::steady_clock::time_point> made_room_;  // the last time
  int64_t known_bytes_ = 0;                                         // after the last sweep
  int64_t new_bytes_ = 0;                                           // written since
  int64_t new_entries_ = 0;
};

/// The side file whose lock elects the one sweeper; its time says when the last sweep ended.
inline constexpr const char* kSweepFile = ".sweep";

}  // namespace stepfuse::runtime
