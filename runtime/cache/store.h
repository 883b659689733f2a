// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/log.h"
#include "runtime/cache/entry_file.h"
#include "runtime/cache/layer.h"
#include "runtime/cache/metrics.h"
#include "runtime/cache/sweep.h"

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace stepfuse::runtime {

enum class CacheMode : uint8_t {
  On,
  Off,       // nothing on disk is touched
  ReadOnly,  // reads; writes, makes and deletes nothing
  Refresh    // does not read; replaces what is there
};

struct StoreOptions {
  CacheMode mode = CacheMode::On;
  std::string cache_dir;                 // empty: the user's cache folder
  std::vector<std::string> layers;       // read-only folders and bundles, before the system's
  int64_t max_bytes = int64_t{1} << 30;  // of the live folder; 0: nothing is kept
  CacheEnvironment environment;
  FileOps* ops = &FileOps::system();
  SweepAges ages;
  seconds refresh_after{86400};  // a hit marks an entry as used when its time is older than this
};

/// Entries on disk: one live folder and read-only layers below it. May fail to find or to keep, never lies: an entry
/// is returned only if its checksum, its kind and its whole key are right. Nothing here fails the caller; trouble is
/// counted and said once. Thread-safe.
class Store {
 public:
  struct Lookup {
    std::optional<Entry> entry;
    bool from_layer = false;
    std::string path;       // of the entry
    bool occupied = false;  // the live folder has a file of this name that is of no use: publish replaces it
    std::string why;        // without an entry: why
  };
  /// Says why an entry of the live folder is not to be used, else nothing. Layers are not asked.
  using Objection = std::function<std::optional<std::string>(const Entry&)>;

  explicit Store(StoreOptions options);

  Lookup find(const Key& key, const Log& log, const Objection& objection = {});

  /// Without `replace`, a file that is there already is kept.
  void publish(const Key& key, const Entry& entry, bool replace, const Log& log);

  /// For an entry whose content is whole but cannot be used: counted as damage, and deleted from the live folder.
  void discard(const Key& key, const Lookup& found, std::string_view why, const Log& log);

  /// The folders, opened at the first call. Null without a live folder; then the text says why.
  const CacheFolder* live(const Log& log);
  const std::string& why_no_live(const Log& log);
  const std::vector<CacheLayer>& layers(const Log& log);

  const StoreOptions& options() const { return options_; }
  CacheCounters& counters() { return counters_; }

 private:
  void open_folders(const Log& log);
  bool may_write() const { return options_.mode != CacheMode::ReadOnly && options_.mode != CacheMode::Off; }
  EntryRead read_live(const Key& key);
  void judge(EntryRead read, const std::string& place, bool layer, const Key& key, const Objection& objection,
             const Log& log, Lookup& out);
  void take(EntryRead read, bool layer, const Key& key, const Objection& objection, Lookup& out);
  void remove_live(const EntryName& name);
  void count_damage(const std::string& path, std::string_view why, const Log& log);
  void count_trouble(int error, std::string_view doing, const Log& log);

  StoreOptions options_;
  CacheCounters counters_;
  Sweeper sweeper_;
  std::once_flag opened_;
  std::optional<CacheFolder> live_;
  std::string why_no_live_;
  std::vector<CacheLayer> layers_;
};

}  // namespace stepfuse::runtime
