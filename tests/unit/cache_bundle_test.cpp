// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/inspect.h"
#include "tests/support/cache_folder.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <xxhash.h>

namespace stepfuse::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using tests::KeptLog;
using tests::TemporaryFolder;

constexpr size_t kHeaderBytes = 32;
constexpr size_t kRowBytes = 40;

std::vector<Entry> some_entries(int count) {
  std::vector<Entry> entries;
  for (int i = 0; i < count; ++i)
    entries.push_back(tests::test_entry(tests::test_key(i), 100 + static_cast<size_t>(i)));
  return entries;
}

/// Recomputes the checksum of header and index, as somebody would who writes nonsense on purpose.
void seal(std::vector<std::byte>& file) {
  constexpr XXH64_hash_t kSeed = 0x656c646e75426653;
  uint32_t rows = 0;
  std::memcpy(&rows, file.data() + 12, sizeof rows);
  std::memset(file.data() + 24, 0, 8);
  const XXH64_hash_t head = XXH3_64bits_withSeed(file.data(), kHeaderBytes, kSeed);
  const size_t index = std::min(rows * kRowBytes, file.size() - kHeaderBytes);
  const uint64_t sum = XXH3_64bits_withSeed(file.data() + kHeaderBytes, index, head);
  std::memcpy(file.data() + 24, &sum, sizeof sum);
}

void put(std::vector<std::byte>& file, size_t at, uint64_t value, size_t bytes = 8) {
  std::memcpy(file.data() + at, &value, bytes);
}

uint64_t get(const std::vector<std::byte>& file, size_t at) {
  uint64_t value = 0;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

std::string problem_of(const std::vector<std::byte>& file) {
  const auto items = decode_bundle_index(file);
  return items ? "" : items.error().message;
}

class CacheBundle : public testing::Test {
 protected:
  std::string write(int count) {
    const std::string path = top_ / "kernels.sfb";
    const auto written = write_bundle(path, some_entries(count));
    EXPECT_TRUE(written) << written.error().message;
    return path;
  }
  /// A store whose live folder is empty, with the bundle below it.
  StoreOptions over(const std::string& path) const {
    StoreOptions options = tests::store_options(top_ / "live");
    options.layers = {path};
    return options;
  }
  static std::string why_refused(const std::string& path, uid_t uid = ::geteuid()) {
    const auto bundle = Bundle::open(path, uid);
    return bundle ? "" : bundle.error().message;
  }

  TemporaryFolder top_;
  KeptLog kept_;
};

TEST_F(CacheBundle, HoldsWhatWasPutIn) {
  const auto bundle = Bundle::open(write(20), ::geteuid());
  ASSERT_TRUE(bundle) << bundle.error().message;
  EXPECT_EQ((*bundle)->items().size(), 20u);
  for (int i = 0; i < 20; ++i) {
    const Key key = tests::test_key(i);
    const EntryRead read = (*bundle)->read(key.kind, key.hash);
    ASSERT_EQ(read.outcome, EntryRead::Outcome::Read) << i << read.why;
    EXPECT_EQ(read.entry->preimage, key.preimage);
    EXPECT_TRUE(tests::belongs_to(*read.entry, key));
  }
  const Key other = tests::test_key(20);
  EXPECT_EQ((*bundle)->read(other.kind, other.hash).outcome, EntryRead::Outcome::Absent);
  EXPECT_EQ((*bundle)->read(EntryKind::Shape, tests::test_key(0).hash).outcome, EntryRead::Outcome::Absent);
}

TEST_F(CacheBundle, AnEmptyOneIsLegal) {
  const auto bundle = Bundle::open(write(0), ::geteuid());
  ASSERT_TRUE(bundle) << bundle.error().message;
  EXPECT_TRUE((*bundle)->items().empty());
}

TEST_F(CacheBundle, TheOrderOfTheEntriesDoesNotMatter) {
  std::vector<Entry> entries = some_entries(20);
  const auto first = encode_bundle(entries);
  std::shuffle(entries.begin(), entries.end(), std::mt19937(7));
  EXPECT_EQ(first.value(), encode_bundle(entries).value());
}

TEST_F(CacheBundle, TwoEntriesOfOneKeyAreRefused) {
  std::vector<Entry> entries = some_entries(2);
  entries.push_back(entries.front());
  const auto bytes = encode_bundle(entries);
  ASSERT_FALSE(bytes);
  EXPECT_THAT(bytes.error().message, HasSubstr(tests::test_key(0).hash.hex()));
}

TEST_F(CacheBundle, D04_EveryChangedByteIsFound) {
  const std::vector<std::byte> whole = encode_bundle(some_entries(3)).value();
  const auto items = decode_bundle_index(whole).value();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> file = whole;
    file[at] ^= std::byte{1};
    const auto index = decode_bundle_index(file);
    if (at < kHeaderBytes + 3 * kRowBytes) {
      EXPECT_FALSE(index) << at;
      continue;
    }
    ASSERT_TRUE(index) << at << index.error().message;
    const auto hit =
        std::find_if(items.begin(), items.end(), [&](const BundleItem& item) { return at - item.offset < item.bytes; });
    ASSERT_NE(hit, items.end());
    EXPECT_FALSE(decode(std::span(file).subspan(hit->offset, hit->bytes))) << at;
  }
}

TEST_F(CacheBundle, D04_EveryLengthIsFound) {
  const std::vector<std::byte> whole = encode_bundle(some_entries(3)).value();
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(problem_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)}), "") << length;
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_NE(problem_of(longer), "");
}

TEST_F(CacheBundle, D09_NonsenseUnderARightChecksumIsRefused) {
  const std::vector<std::byte> whole = encode_bundle(some_entries(3)).value();
  const size_t first = kHeaderBytes, second = first + kRowBytes, third = second + kRowBytes;
  const auto with = [&](auto change) {
    std::vector<std::byte> file = whole;
    change(file);
    seal(file);
    return problem_of(file);
  };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_THAT(with([](auto& f) { put(f, 12, UINT32_MAX, 4); }), HasSubstr("too short for its index"));
  EXPECT_THAT(with([](auto& f) { put(f, 8, 2, 4); }), HasSubstr("format version 2"));
  EXPECT_THAT(with([](auto& f) { put(f, 16, 1); }), HasSubstr("where its header says 1"));
  EXPECT_THAT(with([&](auto& f) { put(f, first, 4, 4); }), HasSubstr("unknown kind 4"));
  EXPECT_THAT(with([&](auto& f) { put(f, first + 4, 1, 4); }), HasSubstr("must be 0"));
  EXPECT_THAT(with([&](auto& f) { put(f, second + 24, get(f, first + 24)); }), HasSubstr("entry 1: it does not begin"));
  EXPECT_THAT(with([&](auto& f) { put(f, third + 32, get(f, third + 32) + 1); }), HasSubstr("behind the end"));
  EXPECT_THAT(with([&](auto& f) { put(f, third + 32, get(f, third + 32) - 1); }), HasSubstr("1 bytes follow"));
  EXPECT_THAT(with([&](auto& f) { put(f, first + 32, uint64_t{1} << 40); }), HasSubstr("it has 1099511627776 bytes"));
  EXPECT_THAT(with([&](auto& f) { put(f, second + 8, get(f, first + 8)), put(f, second + 16, get(f, first + 16)); }),
              HasSubstr("out of order"));
  EXPECT_THAT(with([](auto& f) { put(f, 12, 2, 4); }), HasSubstr("does not begin"));
}

TEST_F(CacheBundle, ServesAsALayerWhateverCompiledIt) {
  Store store(over(write(5)));
  const Key key = tests::test_key(3);
  // D12: the live folder's objection is not asked of a bundle.
  const auto found = store.find(key, kept_.log(), [](const Entry&) { return std::optional<std::string>("LLVM 18"); });
  ASSERT_TRUE(found.entry) << found.why;
  EXPECT_TRUE(found.from_layer);
  EXPECT_TRUE(tests::belongs_to(*found.entry, key));
  EXPECT_THAT(found.path, HasSubstr("kernels.sfb/"));
  EXPECT_EQ(store.find(tests::test_key(9), kept_.log()).why, "no entry has this key");
  EXPECT_EQ(kept_.all(), "");
}

TEST_F(CacheBundle, D14_AnotherKeyWithTheSameHashIsAMiss) {
  Store store(over(write(5)));
  Key key = tests::test_key(9);
  key.hash = tests::test_key(3).hash;
  const auto found = store.find(key, kept_.log());
  EXPECT_FALSE(found.entry);
  EXPECT_EQ(found.why, "another key has the same hash");
}

TEST_F(CacheBundle, D04_ADamagedEntryIsAMissAndTheOthersServe) {
  const std::string path = write(5);
  std::string bytes = tests::read_file(path);
  const auto bundle = Bundle::open(path, ::geteuid());
  ASSERT_TRUE(bundle);
  const BundleItem& bad = (*bundle)->items()[2];
  bytes[bad.offset + bad.bytes / 2] ^= 1;
  fs::remove(path);
  tests::write_file(path, bytes);
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  Store store(over(path));
  int hits = 0;
  for (int i = 0; i < 5; ++i) hits += store.find(tests::test_key(i), kept_.log()).entry ? 1 : 0;
  EXPECT_EQ(hits, 4);
  EXPECT_EQ(store.counters().damaged, 1);
  EXPECT_EQ(kept_.count(bad.hash.hex()), 1) << kept_.all();
  EXPECT_EQ(tests::read_file(path), bytes);
}

TEST_F(CacheBundle, ListsAndShowsItsEntries) {
  const std::string path = write(5);
  Store store(over(path));
  const auto entries = list_entries(store, kept_.log());
  ASSERT_EQ(entries.size(), 5u);
  for (const ListedEntry& entry : entries) {
    EXPECT_EQ(entry.folder, path);
    EXPECT_TRUE(entry.in_layer);
    EXPECT_EQ(entry.problem, "");
  }
  EXPECT_EQ(store_stats(store, kept_.log()).layer_entries, 5);
  const std::string hash = tests::test_key(2).hash.hex();
  const auto shown = show_entry(store, hash.substr(0, 12), kept_.log());
  ASSERT_TRUE(shown) << shown.error().message;
  EXPECT_EQ(shown->listed.hash, hash);
  EXPECT_EQ(shown->payload.size(), 102u);
}

TEST_F(CacheBundle, D09_WhatOthersCouldHaveWrittenIsRefused) {
  const std::string path = write(1);
  for (const mode_t mode : {0664, 0646}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_THAT(why_refused(path), HasSubstr("is writable by others"));
  }
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  fs::create_symlink(path, top_ / "link.sfb");
  EXPECT_THAT(why_refused(top_ / "link.sfb"), HasSubstr("is a symbolic link"));
  fs::create_directories(top_ / "folder.sfb");
  EXPECT_THAT(why_refused(top_ / "folder.sfb"), HasSubstr("is not a regular file"));
  ASSERT_EQ(::mkfifo((top_ / "pipe.sfb").c_str(), 0600), 0);
  EXPECT_THAT(why_refused(top_ / "pipe.sfb"), HasSubstr("is not a regular file"));
  fs::create_directories(top_ / "open");
  fs::copy_file(path, top_ / "open/kernels.sfb");
  ASSERT_EQ(::chmod((top_ / "open").c_str(), 0777), 0);
  EXPECT_THAT(why_refused(top_ / "open/kernels.sfb"), HasSubstr("no sticky bit"));
}

TEST_F(CacheBundle, D09_ItBelongsToTheUserOrToRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  constexpr uid_t kOther = 4711;
  const std::string path = write(1);
  EXPECT_EQ(why_refused(path, kOther), "");
  ASSERT_EQ(::chown(path.c_str(), kOther, kOther), 0);
  EXPECT_EQ(why_refused(path, kOther), "");
  EXPECT_THAT(why_refused(path), HasSubstr("belongs to user 4711"));
}

TEST_F(CacheBundle, OneThatCannotBeUsedIsLeftOutWithOneWarning) {
  tests::write_file(top_ / "bad.sfb", "SFBUNDLE, it says");
  ASSERT_EQ(::chmod((top_ / "bad.sfb").c_str(), 0600), 0);
  StoreOptions options = over(top_ / "bad.sfb");
  options.layers.push_back(write(2));
  options.layers.push_back(top_ / "none.sfb");
  Store store(options);
  EXPECT_TRUE(store.find(tests::test_key(1), kept_.log()).entry);
  EXPECT_EQ(store.layers(kept_.log()).size(), 1u);
  EXPECT_EQ(kept_.count("bad.sfb is left out"), 1) << kept_.all();
  EXPECT_EQ(kept_.count("none.sfb is left out"), 1) << kept_.all();
}

TEST_F(CacheBundle, AFailedWriteLeavesTheOldOne) {
  const std::string path = write(2);
  const std::string before = tests::read_file(path);
  std::vector<Entry> twice = some_entries(1);
  twice.push_back(twice.front());
  EXPECT_FALSE(write_bundle(path, twice));
  EXPECT_FALSE(write_bundle(top_ / "none/kernels.sfb", some_entries(1)));
  EXPECT_EQ(tests::read_file(path), before);
  EXPECT_EQ(tests::files_below(top_.path()).size(), 1u);
}

TEST_F(CacheBundle, IsReadableByAllAndWritableByItsOwnerWhateverTheUmask) {
  const mode_t before = ::umask(0);
  const std::string path = write(1);
  ::umask(before);
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0644u);
}

}  // namespace
}  // namespace stepfuse::runtime
