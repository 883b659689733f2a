// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;
using u32 = uint32_t;
using u64 = uint64_t;

/// kernel(data, starts, ..., out, n): one digest of `words` numbers per text.
template <class T>
std::vector<T> digests(Device& device, const std::string& kernel, const std::vector<std::string>& texts,
                       size_t words = 1, const std::vector<Argument>& more = {}) {
  std::vector<uint8_t> data;
  std::vector<int> starts{0};
  for (const std::string& text : texts) {
    data.insert(data.end(), text.begin(), text.end());
    starts.push_back(static_cast<int>(data.size()));
  }
  const Array<T> out = device.allocate<T>(words * texts.size());
  std::vector<Argument> arguments{device.upload(data), device.upload(starts)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  arguments.emplace_back(out);
  arguments.emplace_back(static_cast<int>(texts.size()));
  device.launch(kernel, {1}, {256}, arguments);
  return device.download(out);
}

std::vector<std::string> random_texts(Device& device, size_t count) {
  std::vector<std::string> texts(count);
  for (std::string& text : texts) {
    for (int64_t k = device.integer(0, 100); k > 0; k--) text += static_cast<char>(device.integer(0, 127));
  }
  return texts;
}

u32 crc32_of(const std::string& text) {
  // Polynomial division bit by bit, the remainder in the order of transmission.
  u32 remainder = ~0u;
  for (const char c : text) {
    for (int bit = 0; bit < 8; bit++) {
      const bool out = ((remainder ^ static_cast<u32>(static_cast<uint8_t>(c)) >> bit) & 1) != 0;
      remainder = remainder >> 1 ^ (out ? 0xEDB88320u : 0);
    }
  }
  return ~remainder;
}

/// The check value of CRC-32/ISO-HDLC is that of "123456789".
void crc32(Device& device, const char* kernel) {
  std::vector<std::string> texts = random_texts(device, 100);
  texts[0] = "123456789";
  texts[1] = "";
  const std::vector<u32> got = digests<u32>(device, kernel, texts);
  EXPECT_EQ(got[0], 0xCBF43926u);
  EXPECT_EQ(got[1], 0u);
  std::vector<u32> expected;
  for (const std::string& text : texts) expected.push_back(crc32_of(text));
  expect_same(got, expected);
}

/// RFC 1950; "Wikipedia" has 0x11E60398.
void adler32(Device& device) {
  std::vector<std::string> texts = random_texts(device, 60);
  texts[0] = "Wikipedia";
  const std::vector<u32> got = digests<u32>(device, "adler32", texts);
  EXPECT_EQ(got[0], 0x11E60398u);
  for (size_t i = 0; i < texts.size(); i++) {
    u64 a = 1, b = 0;
    for (const char c : texts[i]) b += a += static_cast<uint8_t>(c);
    EXPECT_EQ(got[i], b % 65521 << 16 | a % 65521);
  }
}

/// Test vectors of the FNV reference code.
void fnv1a(Device& device) {
  expect_same(digests<u64>(device, "fnv1a", {"", "a", "foobar"}),
              {0xcbf29ce484222325u, 0xaf63dc4c8601ec8cu, 0x85944171f73967e8u});
}

/// Published answers of MurmurHash3_x86_32 with the seed 0x9747b28c.
void murmur3(Device& device) {
  expect_same(digests<u32>(
                  device, "murmur3_32",
                  {"", "a", "aa", "aaa", "aaaa", "abc", "Hello, world!", "The quick brown fox jumps over the lazy dog"},
                  1, {u32{0x9747b28c}}),
              {0xEBB6C228, 0x7FA09EA6, 0x5D211726, 0x283E0130, 0x5A97808A, 0xC84A62DD, 0x24884CBA, 0x2FA826CD});
}

/// Constants from their definition, digests from FIPS 180-4's examples and of the empty text.
void sha256(Device& device) {
  std::vector<u32> constants;
  for (int candidate = 2; constants.size() < 64; candidate++) {
    bool prime = true;
    for (int d = 2; d * d <= candidate; d++) prime &= candidate % d != 0;
    if (!prime) continue;
    const long double root = std::cbrt(static_cast<long double>(candidate));
    constants.push_back(static_cast<u32>((root - std::floor(root)) * 0x1p32L));
  }
  device.write(device.variable<u32>("sha256_constants"), constants);
  const std::vector<std::string> texts{"abc", "", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                                       std::string(1000, 'a')};
  expect_same(digests<u32>(device, "sha256", texts, 8),
              {0xba7816bf, 0x8f01cfea, 0x414140de, 0x5dae2223, 0xb00361a3, 0x96177a9c, 0xb410ff61, 0xf20015ad,
               0xe3b0c442, 0x98fc1c14, 0x9afbf4c8, 0x996fb924, 0x27ae41e4, 0x649b934c, 0xa495991b, 0x7852b855,
               0x248d6a61, 0xd20638b8, 0xe5c02693, 0x0c3e6039, 0xa33ce459, 0x64ff2167, 0xf6ecedd4, 0x19db06c1,
               0x41edece4, 0x2d63e8d9, 0xbf515a9b, 0xa6932e1c, 0x20cbc9f5, 0xa5d13464, 0x5adb5db1, 0xb9737ea3});
}

/// RFC 8439, section 2.3.2.
void chacha20(Device& device) {
  std::vector<u32> key, nonce{0x09000000, 0x4a000000, 0};
  for (u32 k = 0; k < 8; k++) key.push_back(0x03020100 + k * 0x04040404);
  const Array<u32> out = device.allocate<u32>(16 * 32);
  device.launch("chacha20", {1}, {32}, {device.upload(key), u32{1}, device.upload(nonce), out});
  std::vector<u32> got = device.download(out);
  got.resize(16);
  expect_same(got, {0xe4e7f110, 0x15593bd1, 0x1fdd0f50, 0xc47120a3, 0xc7f4d1c7, 0x0368c033, 0x9aaa2204, 0x4e6cd4c3,
                    0x466482d2, 0x09aa9f07, 0x05d7c214, 0xa2028bd9, 0xd19c12b5, 0xb94e16de, 0xe883d0cb, 0x4e3c50a2});
}

/// Decryption undoes encryption; the known pair is of the key 00010203..0f and the text "ABCDEFGH".
void xtea(Device& device) {
  const int n = 200;
  std::vector<u32> plain(2 * n);
  for (u32& word : plain) word = static_cast<u32>(device.random()());
  plain[0] = 0x41424344, plain[1] = 0x45464748;
  const Array<u32> blocks = device.upload(plain);
  const Array<u32> key = device.upload(std::vector<u32>{0x00010203, 0x04050607, 0x08090a0b, 0x0c0d0e0f});
  device.launch("xtea", {2}, {128}, {blocks, key, n, 0});
  const std::vector<u32> secret = device.download(blocks);
  EXPECT_EQ(secret[0], 0x497df3d0u);
  EXPECT_EQ(secret[1], 0x72612cb5u);
  EXPECT_NE(secret, plain);
  device.launch("xtea", {2}, {128}, {blocks, key, n, 1});
  expect_same(device.download(blocks), plain);
}

std::vector<u32> distinct_keys(Device& device, size_t count) {
  std::set<u32> keys;
  while (keys.size() < count) keys.insert(static_cast<u32>(device.random()()));
  std::vector<u32> list(keys.begin(), keys.end());
  std::shuffle(list.begin(), list.end(), device.random());
  return list;
}

void hash_table_insert(Device& device) {
  const int n = 300, size = 512;
  const std::vector<u32> keys = distinct_keys(device, n);
  const Array<u64> slots = device.upload(std::vector<u64>(size, ~u64{0}));
  device.launch("hash_table_insert", {3}, {128}, {device.upload(keys), slots, size, n});
  std::vector<u64> got = device.download(slots), expected;
  std::erase(got, ~u64{0});
  for (size_t i = 0; i < n; i++) expected.push_back(u64{keys[i]} << 32 | i);
  std::sort(got.begin(), got.end());
  std::sort(expected.begin(), expected.end());
  expect_same(got, expected);
}

void hash_table_find(Device& device) {
  const int n = 300, size = 512, known = 250;
  const std::vector<u32> keys = distinct_keys(device, n);
  const Array<u64> slots = device.upload(std::vector<u64>(size, ~u64{0}));
  const Array<u32> array = device.upload(keys);
  const Array<int> out = device.allocate<int>(n);
  device.launch("hash_table_insert", {2}, {128}, {array, slots, size, known});
  device.launch("hash_table_find", {3}, {128}, {array, slots, size, out, n});
  std::vector<int> expected(n, -1);
  std::iota(expected.begin(), expected.begin() + known, 0);
  expect_same(device.download(out), expected);
}

}  // namespace

Cases hash_cases() {
  return {
      {"hash", "crc32", [](Device& device) { crc32(device, "crc32"); }},
      {"hash", "crc32_table", [](Device& device) { crc32(device, "crc32_table"); }},
      {"hash", "adler32", adler32},
      {"hash", "fnv1a", fnv1a},
      {"hash", "murmur3_32", murmur3},
      {"hash", "sha256", sha256},
      {"hash", "chacha20", chacha20},
      {"hash", "xtea", xtea},
      {"hash", "hash_table_insert", hash_table_insert},
      {"hash", "hash_table_find", hash_table_find},
  };
}

}  // namespace stepfuse::vgpu::corpus
