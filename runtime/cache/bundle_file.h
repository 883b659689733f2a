// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/entry_file.h"
#include "runtime/cache/key.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

inline constexpr std::string_view kBundleSuffix = ".sfb";
bool is_bundle_path(std::string_view path);

/// One entry of a bundle, as its index has it.
struct BundleItem {
  EntryKind kind = EntryKind::Kernel;
  ir::Hash128 hash;
  uint64_t offset = 0, bytes = 0;  // of the encoded entry in the file
  friend bool operator==(const BundleItem&, const BundleItem&) = default;
};

/// Many entries in one immutable file, mapped into memory. All numbers little-endian:
///   0 "SFBUNDLE"   8 u32 version   12 u32 entries   16 u64 bytes of the file   24 u64 checksum of header and index
///   32 the index, 40 bytes an entry, ascending by kind, then hash:
///      u32 kind   u32 zero   u64 high and u64 low half of the key's hash   u64 offset   u64 bytes
///   then the entries as encode() writes them, in the order of the index and without gaps
/// Nothing in it says when, where or by how many threads it was made: the same entries give the same bytes.
class Bundle {
 public:
  /// A regular file that belongs to the user or to root and that nobody else can write, below folders that can be
  /// trusted. Header and index are checked whole; an entry is checked when it is read. NotFound, Io; Environment: it is
  /// not to be trusted; InvalidData: it is damaged, or no bundle.
  static Result<std::shared_ptr<const Bundle>> open(const std::string& path, uid_t uid);
  ~Bundle();
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  const std::string& path() const { return path_; }
  int64_t modified() const { return modified_; }  // seconds since 1970
  const std::vector<BundleItem>& items() const { return items_; }

  /// Absent, Read or Damaged.
  EntryRead read(EntryKind kind, const ir::Hash128& hash) const;
  EntryRead read(const BundleItem& item) const;

 private:
  Bundle(std::string path, int64_t modified, std::span<const std::byte> mapped)
      : path_(std::move(path)), modified_(modified), mapped_(mapped) {}

  std::string path_;
  int64_t modified_ = 0;
  std::span<const std::byte> mapped_;
  std::vector<BundleItem> items_;
};

/// The bytes of a bundle. The order of the entries does not matter; no two have the same key.
Result<std::vector<std::byte>> encode_bundle(std::span<const Entry> entries);

/// The index of a bundle's bytes; InvalidData says what is wrong. No number in it is believed before the checksum has
/// been found right, and nothing overlaps or lies outside.
Result<std::vector<BundleItem>> decode_bundle_index(std::span<const std::byte> file);

/// Writes a temporary file beside `path`, and renames it.
Outcome write_bundle(const std::string& path, std::span<const Entry> entries);

}  // namespace stepfuse::runtime
