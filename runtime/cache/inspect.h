// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/store.h"

#include <optional>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// An entry as it lies in one of the folders, or in a bundle. `problem` says why it cannot be used; fields and metadata
/// may then be missing.
struct ListedEntry {
  std::string folder, path;  // folder: or the bundle's file; path: below it
  bool in_layer = false;
  std::string hash;  // 32 digits, of the file's name
  EntryKind kind = EntryKind::Kernel;
  KeyFields fields;
  std::string metadata;  // JSON
  int64_t file_bytes = 0;
  int64_t payload_bytes = 0;
  int64_t unused_seconds = 0;  // since it was written or last marked as used
  std::string problem;
};

/// Says what is wrong with an entry that could be read; empty: nothing.
using EntryCheck = std::function<std::string(const Entry&)>;

/// Every entry of the live folder and the layers, decoded, by folder and path.
std::vector<ListedEntry> list_entries(Store& store, const Log& log, const EntryCheck& check = {}, int* error = nullptr);

/// Those of one bundle, in the order of its index.
std::vector<ListedEntry> list_entries(const Bundle& bundle, const EntryCheck& check = {});

/// One, with its payload. NotFound, or InvalidArgument when several hashes begin so.
struct ShownEntry {
  ListedEntry listed;
  std::vector<std::byte> payload;
};
Result<ShownEntry> show_entry(Store& store, std::string_view hash_prefix, const Log& log);

/// A field in which an entry differs from what was wanted.
struct Difference {
  std::string name;
  std::string have, want;
  /// One line: only the part of a list or of a text that differs is shown.
  std::string text() const;
};

/// The entry of a kind that differs in the fewest fields; among equals the one last used.
struct NearestEntry {
  ListedEntry entry;
  std::vector<Difference> differences;
};
std::optional<NearestEntry> nearest_entry(const std::vector<ListedEntry>& entries, EntryKind kind,
                                          const KeyFields& wanted);

struct StoreStats {
  int64_t entries = 0, kernels = 0, shapes = 0, products = 0;
  int64_t bytes = 0;  // of the live folder's entries
  int64_t max_bytes = 0;
  int64_t temporary_files = 0;
  int64_t layer_entries = 0;
};
StoreStats store_stats(Store& store, const Log& log);

/// Removes from the live folder what the goal says, however young. The error says why nothing may be removed.
Result<SweepReport> prune_store(Store& store, const SweepGoal& goal, const Log& log);

}  // namespace stepfuse::runtime
