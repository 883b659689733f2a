// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/entry.h"

#include <array>
#include <bit>
#include <cstring>

#include <xxhash.h>
#include <zstd.h>

namespace stepfuse::runtime {

namespace {

static_assert(std::endian::native == std::endian::little, "entries are written as they lie in memory");

constexpr std::array<char, 8> kMagic{'S', 'F', 'K', 'C', 'A', 'C', 'H', 'E'};
constexpr uint32_t kFormatVersion = 1;
/// Other than the seed of names, so that a preimage's hash says nothing about its file's checksum.
constexpr XXH64_hash_t kChecksumSeed = 0x5374657066757365;  // "Stepfuse"
constexpr int kCompressionLevel = 3;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kFormatVersion;
  uint32_t kind = 0;
  uint32_t preimage_bytes = 0;
  uint32_t metadata_bytes = 0;
  uint64_t packed_bytes = 0;
  uint64_t payload_bytes = 0;
  uint64_t checksum = 0;
};
static_assert(sizeof(Header) == 48);

/// Chained, so that header and body cannot be exchanged for others.
uint64_t checksum_of(Header header, std::span<const std::byte> body) {
  header.checksum = 0;
  const XXH64_hash_t head = XXH3_64bits_withSeed(&header, sizeof header, kChecksumSeed);
  return XXH3_64bits_withSeed(body.data(), body.size(), head);
}

Outcome check_limits(const Header& header) {
  const auto check = [](std::string_view what, uint64_t bytes, uint64_t most) -> Outcome {
    if (bytes <= most) return {};
    return fail(StatusCode::InvalidData, "a {} of {} bytes is more than {}", what, bytes, most);
  };
  STEPFUSE_TRY(check("key", header.preimage_bytes, kMaxPreimageBytes));
  STEPFUSE_TRY(check("metadata", header.metadata_bytes, kMaxMetadataBytes));
  STEPFUSE_TRY(check("compressed payload", header.packed_bytes, ZSTD_COMPRESSBOUND(kMaxPayloadBytes)));
  return check("payload", header.payload_bytes, kMaxPayloadBytes);
}

tl::unexpected<Status> damaged(std::string_view what) { return fail(StatusCode::InvalidData, "{}", what); }

/// The header, after every check that needs no more than it and the file's size.
Result<Header> read_header(std::span<const std::byte> file) {
  if (file.size() < sizeof(Header)) return damaged(fmt::format("only {} bytes, less than a header", file.size()));
  Header header;
  std::memcpy(&header, file.data(), sizeof header);
  if (header.magic != kMagic) return damaged("not a cache entry");
  if (header.version != kFormatVersion)
    return damaged(fmt::format("format version {}, not {}", header.version, kFormatVersion));
  STEPFUSE_TRY(check_limits(header));
  const uint64_t size = sizeof header + uint64_t{header.preimage_bytes} + header.metadata_bytes + header.packed_bytes;
  if (size != file.size()) return damaged(fmt::format("{} bytes where its header says {}", file.size(), size));
  if (checksum_of(header, file.subspan(sizeof header)) != header.checksum) return damaged("the checksum is wrong");
  if (!entry_kind(header.kind)) return damaged(fmt::format("unknown kind {}", header.kind));
  return header;
}

std::string take_text(std::span<const std::byte>& bytes, size_t size) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), size);
  bytes = bytes.subspan(size);
  return text;
}

void append(std::vector<std::byte>& out, const void* bytes, size_t size) {
  const auto* begin = static_cast<const std::byte*>(bytes);
  out.insert(out.end(), begin, begin + size);
}

}  // namespace

Result<std::vector<std::byte>> encode(const Entry& entry) {
  Header header;
  header.kind = static_cast<uint32_t>(entry.kind);
  header.payload_bytes = entry.payload.size();
  if (entry.preimage.size() > kMaxPreimageBytes || entry.metadata.size() > kMaxMetadataBytes ||
      entry.payload.size() > kMaxPayloadBytes)
    return fail(StatusCode::InvalidArgument,
                "an entry with {} bytes of key, {} of metadata and {} of payload is too large", entry.preimage.size(),
                entry.metadata.size(), entry.payload.size());
  std::vector<std::byte> packed(ZSTD_compressBound(entry.payload.size()));
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), entry.payload.data(), entry.payload.size(), kCompressionLevel);
  if (ZSTD_isError(size) != 0) return fail(StatusCode::Internal, "zstd: {}", ZSTD_getErrorName(size));
  packed.resize(size);
  header.preimage_bytes = static_cast<uint32_t>(entry.preimage.size());
  header.metadata_bytes = static_cast<uint32_t>(entry.metadata.size());
  header.packed_bytes = packed.size();
  std::vector<std::byte> file;
  file.reserve(sizeof header + entry.preimage.size() + entry.metadata.size() + packed.size());
  append(file, &header, sizeof header);
  append(file, entry.preimage.data(), entry.preimage.size());
  append(file, entry.metadata.data(), entry.metadata.size());
  append(file, packed.data(), packed.size());
  header.checksum = checksum_of(header, std::span(file).subspan(sizeof header));
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

Result<Entry> decode(std::span<const std::byte> file) {
  STEPFUSE_ASSIGN(const Header header, read_header(file));
  std::span<const std::byte> rest = file.subspan(sizeof header);
  Entry entry;
  entry.kind = static_cast<EntryKind>(header.kind);
  entry.preimage = take_text(rest, header.preimage_bytes);
  entry.metadata = take_text(rest, header.metadata_bytes);
  entry.payload.resize(header.payload_bytes);
  const size_t size = ZSTD_decompress(entry.payload.data(), entry.payload.size(), rest.data(), rest.size());
  if (ZSTD_isError(size) != 0 || size != entry.payload.size()) return damaged("the payload cannot be unpacked");
  return entry;
}

}  // namespace stepfuse::runtime
