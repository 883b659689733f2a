// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/bundle_file.h"

#include "runtime/cache/folder.h"
#include "runtime/pending_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <tuple>

#include <xxhash.h>

namespace stepfuse::runtime {

namespace {

static_assert(std::endian::native == std::endian::little, "bundles are written as they lie in memory");

constexpr std::array<char, 8> kMagic{'S', 'F', 'B', 'U', 'N', 'D', 'L', 'E'};
constexpr uint32_t kFormatVersion = 1;
/// Other than an entry's, so that one is never taken for the other.
constexpr XXH64_hash_t kChecksumSeed = 0x656c646e75426653;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kFormatVersion;
  uint32_t entries = 0;
  uint64_t file_bytes = 0;
  uint64_t checksum = 0;
};
static_assert(sizeof(Header) == 32);

struct IndexRow {
  uint32_t kind = 0;
  uint32_t zero = 0;
  uint64_t hash_high = 0, hash_low = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(IndexRow) == 40);

auto order_of(const BundleItem& item) { return std::tuple(item.kind, item.hash); }

uint64_t checksum_of(Header header, std::span<const std::byte> index) {
  header.checksum = 0;
  const XXH64_hash_t head = XXH3_64bits_withSeed(&header, sizeof header, kChecksumSeed);
  return XXH3_64bits_withSeed(index.data(), index.size(), head);
}

tl::unexpected<Status> damaged(std::string_view what) { return fail(StatusCode::InvalidData, "{}", what); }

/// The header, after every check that needs no more than it, the index and the file's size.
Result<Header> read_header(std::span<const std::byte> file) {
  if (file.size() < sizeof(Header)) return damaged(fmt::format("only {} bytes, less than a header", file.size()));
  Header header;
  std::memcpy(&header, file.data(), sizeof header);
  if (header.magic != kMagic) return damaged("not a bundle");
  if (header.version != kFormatVersion)
    return damaged(fmt::format("bundle format version {}, not {}", header.version, kFormatVersion));
  if (header.file_bytes != file.size())
    return damaged(fmt::format("{} bytes where its header says {}", file.size(), header.file_bytes));
  const uint64_t index_bytes = uint64_t{header.entries} * sizeof(IndexRow);
  if (index_bytes > file.size() - sizeof header)
    return damaged(fmt::format("too short for its index of {} entries", header.entries));
  if (checksum_of(header, file.subspan(sizeof header, index_bytes)) != header.checksum)
    return damaged("the checksum of its index is wrong");
  return header;
}

/// Whoever wrote the checksum may still have written nonsense.
Outcome check_row(const IndexRow& row, size_t number, uint64_t expected_offset, uint64_t file_bytes) {
  const auto wrong = [&](std::string_view what) { return damaged(fmt::format("entry {}: {}", number, what)); };
  if (!entry_kind(row.kind)) return wrong(fmt::format("unknown kind {}", row.kind));
  if (row.zero != 0) return wrong("a number that must be 0 is not");
  if (row.offset != expected_offset) return wrong("it does not begin where the one before it ends");
  if (row.bytes > kMaxEntryBytes) return wrong(fmt::format("it has {} bytes", row.bytes));
  if (row.bytes > file_bytes - row.offset) return wrong("it ends behind the end of the file");
  return {};
}

struct MappedFile {
  std::string path;
  int64_t modified = 0;
  std::span<const std::byte> bytes;
};

Result<MappedFile> map_file(const std::string& path, uid_t uid) {
  STEPFUSE_ASSIGN(const CacheFolder file, open_cache_file(path, uid));
  struct stat info{};
  if (::fstat(file.fd.get(), &info) != 0) return fail(StatusCode::Io, "{}: {}", file.path, error_text(errno));
  if (info.st_size == 0) return damaged(fmt::format("{}: the file is empty", file.path));
  const auto size = static_cast<size_t>(info.st_size);
  void* bytes = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd.get(), 0);
  if (bytes == MAP_FAILED) return fail(StatusCode::Io, "{}: {}", file.path, error_text(errno));
  return MappedFile{file.path, info.st_mtime, {static_cast<const std::byte*>(bytes), size}};
}

struct EncodedEntry {
  BundleItem item;
  std::vector<std::byte> bytes;
};

Result<std::vector<EncodedEntry>> encode_sorted(std::span<const Entry> entries) {
  std::vector<EncodedEntry> encoded;
  for (const Entry& entry : entries) {
    STEPFUSE_ASSIGN(std::vector<std::byte> bytes, encode(entry));
    encoded.push_back({{entry.kind, ir::hash_bytes(entry.preimage), 0, bytes.size()}, std::move(bytes)});
  }
  std::sort(encoded.begin(), encoded.end(),
            [](const EncodedEntry& a, const EncodedEntry& b) { return order_of(a.item) < order_of(b.item); });
  for (size_t i = 1; i < encoded.size(); ++i)
    if (order_of(encoded[i - 1].item) == order_of(encoded[i].item))
      return fail(StatusCode::InvalidArgument, "two entries of a bundle have the key {}", encoded[i].item.hash.hex());
  return encoded;
}

}  // namespace

bool is_bundle_path(std::string_view path) { return path.ends_with(kBundleSuffix); }

Result<std::vector<std::byte>> encode_bundle(std::span<const Entry> entries) {
  STEPFUSE_ASSIGN(const std::vector<EncodedEntry> encoded, encode_sorted(entries));
  const size_t index_bytes = encoded.size() * sizeof(IndexRow);
  Header header;
  header.entries = static_cast<uint32_t>(encoded.size());
  std::vector<std::byte> file(sizeof header + index_bytes);
  for (size_t i = 0; i < encoded.size(); ++i) {
    const BundleItem& item = encoded[i].item;
    const IndexRow row{static_cast<uint32_t>(item.kind), 0, item.hash.high, item.hash.low, file.size(), item.bytes};
    std::memcpy(file.data() + sizeof header + i * sizeof row, &row, sizeof row);
    file.insert(file.end(), encoded[i].bytes.begin(), encoded[i].bytes.end());
  }
  header.file_bytes = file.size();
  header.checksum = checksum_of(header, std::span(file).subspan(sizeof header, index_bytes));
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

Result<std::vector<BundleItem>> decode_bundle_index(std::span<const std::byte> file) {
  STEPFUSE_ASSIGN(const Header header, read_header(file));
  std::vector<BundleItem> items;
  items.reserve(header.entries);
  uint64_t end = sizeof header + uint64_t{header.entries} * sizeof(IndexRow);
  for (size_t i = 0; i < header.entries; ++i) {
    IndexRow row;
    std::memcpy(&row, file.data() + sizeof header + i * sizeof row, sizeof row);
    STEPFUSE_TRY(check_row(row, i, end, file.size()));
    items.push_back({static_cast<EntryKind>(row.kind), {row.hash_high, row.hash_low}, row.offset, row.bytes});
    if (i > 0 && order_of(items[i - 1]) >= order_of(items[i]))
      return damaged(fmt::format("entry {} of its index is out of order", i));
    end += row.bytes;
  }
  if (end != file.size()) return damaged(fmt::format("{} bytes follow its last entry", file.size() - end));
  return items;
}

Outcome write_bundle(const std::string& path, std::span<const Entry> entries) {
  STEPFUSE_ASSIGN(const std::vector<std::byte> bytes, encode_bundle(entries));
  PendingFile file(path);
  // Whatever the umask: a bundle that its group can write is refused when it is used.
  STEPFUSE_TRY(file.create(0644));
  STEPFUSE_TRY(file.write(bytes.data(), bytes.size()));
  return file.publish(true);
}

Result<std::shared_ptr<const Bundle>> Bundle::open(const std::string& path, uid_t uid) {
  STEPFUSE_ASSIGN(MappedFile file, map_file(path, uid));
  std::shared_ptr<Bundle> bundle(new Bundle(std::move(file.path), file.modified, file.bytes));
  auto items = decode_bundle_index(bundle->mapped_);
  if (!items) return fail(StatusCode::InvalidData, "{}: {}", bundle->path_, items.error().message);
  bundle->items_ = std::move(*items);
  return bundle;
}

Bundle::~Bundle() {
  // munmap() takes a pointer to what it does not write.
  ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
}

EntryRead Bundle::read(EntryKind kind, const ir::Hash128& hash) const {
  const BundleItem wanted{kind, hash, 0, 0};
  const auto it = std::lower_bound(items_.begin(), items_.end(), wanted,
                                   [](const BundleItem& a, const BundleItem& b) { return order_of(a) < order_of(b); });
  if (it == items_.end() || order_of(*it) != order_of(wanted)) return {};
  return read(*it);
}

EntryRead Bundle::read(const BundleItem& item) const {
  EntryRead read;
  auto entry = decode(mapped_.subspan(item.offset, item.bytes));
  if (!entry) {
    read.outcome = EntryRead::Outcome::Damaged;
    read.why = std::move(entry.error().message);
    return read;
  }
  read.outcome = EntryRead::Outcome::Read;
  read.entry = std::move(*entry);
  read.bytes = static_cast<int64_t>(item.bytes);
  return read;
}

}  // namespace stepfuse::runtime
