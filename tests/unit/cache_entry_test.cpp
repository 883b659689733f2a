// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/entry.h"
#include "tests/support/cache_folder.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

Entry small_entry() {
  return {EntryKind::Kernel, key_text(EntryKind::Kernel, {{"a", "1"}}), R"({"name":"k"})",
          std::vector<std::byte>(40, std::byte{7})};
}

TEST(CacheEntry, DecodesWhatItEncoded) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100000}}) {
    Entry entry = small_entry();
    entry.kind = EntryKind::Shape;
    entry.payload.assign(size, std::byte{3});
    const auto back = decode(encode(entry).value());
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->kind, entry.kind);
    EXPECT_EQ(back->preimage, entry.preimage);
    EXPECT_EQ(back->metadata, entry.metadata);
    EXPECT_EQ(back->payload, entry.payload);
  }
}

TEST(CacheEntry, D04_EveryFlippedBitIsFound) {
  const std::vector<std::byte> good = encode(small_entry()).value();
  for (size_t at = 0; at < good.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> bad = good;
      bad[at] ^= static_cast<std::byte>(1 << bit);
      EXPECT_FALSE(decode(bad)) << "byte " << at << ", bit " << bit;
    }
}

TEST(CacheEntry, D04_EveryTruncationAndEveryExtraByteIsFound) {
  const std::vector<std::byte> good = encode(small_entry()).value();
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(decode(std::span(good).first(size))) << size;
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(longer));
}

TEST(CacheEntry, HeaderAndBodyOfDifferentEntriesDoNotGoTogether) {
  Entry other = small_entry();
  other.payload.assign(40, std::byte{8});
  const auto a = encode(small_entry()).value();
  const auto b = encode(other).value();
  ASSERT_EQ(a.size(), b.size());
  std::vector<std::byte> mixed = a;
  std::copy(b.begin() + 48, b.end(), mixed.begin() + 48);
  EXPECT_FALSE(decode(mixed));
}

TEST(CacheEntry, SizesBeyondTheLimitsAreRefusedBothWays) {
  Entry entry = small_entry();
  entry.metadata.assign(kMaxMetadataBytes + 1, ' ');
  EXPECT_EQ(encode(entry).error().code, StatusCode::InvalidArgument);
  std::vector<std::byte> bomb = encode(small_entry()).value();
  bomb[32 + 5] = std::byte{0xff};  // payload bytes: beyond a tebibyte
  const auto refused = decode(bomb);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("payload"));
}

TEST(CacheKey, D14_DifferentFieldsGiveDifferentText) {
  const std::vector<KeyFields> different = {{{"a", "x"}, {"b", "c"}},
                                            {{"a", "x\nb: c"}},
                                            {{"a", "x\tb: c"}},
                                            {{"a", "x\n\tb: c"}},
                                            {{"a", "x"}, {"b", "c\n"}},
                                            {{"a", "x"}, {"b", ""}},
                                            {{"a", ""}, {"b", "x"}},
                                            {{"a", "x|b=c"}},
                                            {{"a", "x"}, {"b", "c"}, {"b", ""}},
                                            {{"a", "\n"}},
                                            {{"a", "\n\n"}},
                                            {}};
  std::vector<std::string> texts;
  for (const KeyFields& fields : different) {
    texts.push_back(key_text(EntryKind::Kernel, fields));
    EXPECT_EQ(parse_key_text(texts.back()).value(), fields) << texts.back();
  }
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
  EXPECT_NE(key_text(EntryKind::Kernel, {}), key_text(EntryKind::Shape, {}));
}

TEST(CacheKey, BrokenTextIsNoKey) {
  for (const char* text : {"", "stepfuse kernel 1", "other 1\na: b\n", "stepfuse kernel 1\nno field\n",
                           "stepfuse kernel 1\n\tstray\n", "stepfuse kernel 1\na-b: c\n"})
    EXPECT_FALSE(parse_key_text(text)) << text;
  EXPECT_THROW(key_text(EntryKind::Kernel, {{"a: b", "c"}}), InternalError);
}

}  // namespace
}  // namespace stepfuse::runtime
