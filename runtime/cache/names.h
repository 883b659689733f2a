// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/key.h"

#include <string>
#include <string_view>

namespace stepfuse::runtime {

/// An entry's place below the cache folder: "ab/abcdef...0123.kernel.sfk".
struct EntryName {
  std::string shard;  // the first two digits of the hash
  std::string file;
  std::string path() const { return shard + "/" + file; }
};
EntryName entry_name(EntryKind kind, const ir::Hash128& hash);
inline EntryName entry_name(const Key& key) { return entry_name(key.kind, key.hash); }

bool is_shard_name(std::string_view name);
/// Whatever else lies in a shard is no entry and not looked at.
bool is_entry_name(std::string_view name);

/// The name of a file while it is written, ".tmp-<machine>-<process>-<number>"; each call gives another.
std::string temporary_name();
bool is_temporary_name(std::string_view name);
/// Whether the process that wrote a temporary file is known to be gone. Of another machine or container nothing is
/// known.
bool writer_is_gone(std::string_view name);

}  // namespace stepfuse::runtime
