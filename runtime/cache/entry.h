// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/key.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// One immutable file of the cache.
struct Entry {
  EntryKind kind = EntryKind::Kernel;
  std::string preimage;            // the key in full
  std::string metadata;            // JSON: about the entry, no part of the key
  std::vector<std::byte> payload;  // uncompressed
};

/// Most that a file may claim; a larger one is damaged, whatever it says.
inline constexpr size_t kMaxPreimageBytes = size_t{1} << 20;
inline constexpr size_t kMaxMetadataBytes = size_t{64} << 10;
inline constexpr size_t kMaxPayloadBytes = size_t{64} << 20;
/// Most bytes an entry's file may have: zstd lets incompressible bytes grow by less than a hundredth.
inline constexpr size_t kMaxEntryBytes =
    kMaxPreimageBytes + kMaxMetadataBytes + kMaxPayloadBytes + kMaxPayloadBytes / 64 + 4096;

/// A header of 48 bytes, then preimage, metadata and the compressed payload. All numbers little-endian:
///   0 "SFKCACHE"   8 u32 version   12 u32 kind   16 u32 preimage bytes   20 u32 metadata bytes
///   24 u64 compressed bytes   32 u64 payload bytes   40 u64 checksum of all the rest, header included
/// The error, InvalidArgument, says which part is too large.
Result<std::vector<std::byte>> encode(const Entry& entry);

/// Any changed byte, missing end or extra byte is an error (InvalidData) that says what is wrong. Nothing is believed
/// or allocated by a size in the file before the checksum has been found right.
Result<Entry> decode(std::span<const std::byte> file);

}  // namespace stepfuse::runtime
