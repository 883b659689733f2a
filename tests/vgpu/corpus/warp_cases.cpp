// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;
using u32 = uint32_t;
using u64 = uint64_t;

constexpr size_t blocks = 3, threads = 128, size = blocks * threads;

/// kernel(in, out), one result per thread, from the 32 numbers of the thread's warp.
template <class In, class Out>
Case per_lane(const std::string& kernel, int low, int high, Out (*reference)(const In* warp, size_t lane)) {
  return {"warp", kernel, [=](Device& device) {
            std::vector<In> in = device.integers<In>(size, low, high);
            // Every third warp has one number in all lanes.
            for (size_t i = 0; i < size; i++) in[i] = i / 32 % 3 == 2 ? in[i / 32 * 32] : in[i];
            const Array<Out> out = device.allocate<Out>(size);
            device.launch(kernel, {blocks}, {threads}, {device.upload(in), out});
            std::vector<Out> expected;
            for (size_t i = 0; i < size; i++) expected.push_back(reference(in.data() + i / 32 * 32, i % 32));
            expect_same(device.download(out), expected);
          }};
}

int two_places(const int* warp, size_t lane) {
  const auto sent = [&](size_t from) { return from % 4 < 2 ? warp[from] * 3 + 1 : warp[from] - 7; };
  return sent(lane ^ 2) + (lane % 4 < 2 ? 0 : 1);
}

int of_own_parity(const int* warp, size_t lane) {
  int result = warp[lane % 2];
  for (size_t k = lane % 2 + 2; k < 32; k += 2) result = lane % 2 == 0 ? result + warp[k] : std::max(result, warp[k]);
  return result;
}

int sorted(const int* warp, size_t lane) {
  std::vector<int> values(warp, warp + 32);
  std::sort(values.begin(), values.end());
  return values[lane];
}

u32 column(const u32* warp, size_t lane) {
  u32 result = 0;
  for (size_t k = 0; k < 32; k++) result |= ((warp[k] >> lane) & 1) << k;
  return result;
}

Cases exchanges() {
  return {
      per_lane<int, int>(
          "shuffle_xor_maximum", -9999, 9999,
          +[](const int* warp, size_t) { return *std::max_element(warp, warp + 32); }),
      per_lane<int, int>(
          "shuffle_up_scan", -9999, 9999,
          +[](const int* warp, size_t lane) {
            int sum = 0;
            for (size_t k = 0; k <= lane; k++) sum += warp[k];
            return sum;
          }),
      // A lane whose source lies outside keeps its own value, and the predicate says so (PTX ISA, shfl.sync).
      per_lane<int, int>(
          "shuffle_predicate", -9999, 9999,
          +[](const int* warp, size_t lane) { return lane + 5 < 32 ? 2 * warp[lane + 5] + 1 : 2 * warp[lane]; }),
      per_lane<int, int>("divergent_shuffles", -99, 99, of_own_parity),
      per_lane<int, int>("shuffle_from_two_places", -99, 99, two_places),
      per_lane<int, int>(
          "warp_synchronous", -99, 99,
          +[](const int* warp, size_t) {
            int sum = 0;
            for (size_t k = 0; k < 32; k++) sum += warp[k];
            return sum;
          }),
      per_lane<int, int>("warp_bitonic_sort", -20, 20, sorted),
      per_lane<u32, u32>("bit_transpose", 0, 0x7FFFFFFF, column),
      per_lane<int, int>(
          "vote_uniform", 0, 1,
          +[](const int* warp, size_t) {
            return int{std::all_of(warp, warp + 32, [&](int x) { return (x > 0) == (warp[0] > 0); })};
          }),
      per_lane<int, u32>(
          "match_all", 0, 1,
          +[](const int* warp, size_t) {
            return std::all_of(warp, warp + 32, [&](int x) { return x == warp[0]; }) ? 0xFFFFFFFFu : 0x1234u;
          }),
  };
}

void shuffle_down_sum(Device& device) {
  const std::vector<float> in = device.integers<float>(size, -999, 999);
  const Array<float> out = device.allocate<float>(size / 32);
  device.launch("shuffle_down_sum", {blocks}, {threads}, {device.upload(in), out});
  std::vector<float> expected(size / 32);
  for (size_t i = 0; i < size; i++) expected[i / 32] += in[i];
  expect_same(device.download(out), expected);
}

/// The lane is taken modulo the width.
void shuffle_index(Device& device) {
  const std::vector<int> in = device.integers<int>(size, -999, 999), source = device.integers<int>(size, -40, 90);
  const Array<int> out = device.allocate<int>(size);
  device.launch("shuffle_index", {blocks}, {threads}, {device.upload(in), device.upload(source), out});
  std::vector<int> expected;
  for (size_t i = 0; i < size; i++) expected.push_back(in[i / 32 * 32 + static_cast<size_t>(source[i] & 31)]);
  expect_same(device.download(out), expected);
}

void shuffle_widths(Device& device) {
  const std::vector<int> in = device.integers<int>(size, -999, 999);
  const Array<int> out = device.allocate<int>(4 * size);
  device.launch("shuffle_widths", {blocks}, {threads}, {device.upload(in), out});
  std::vector<int> expected;
  for (size_t i = 0; i < size; i++) {
    expected.push_back(in[i / 8 * 8 + i * 5 % 8]);
    expected.push_back(i % 16 >= 3 ? in[i - 3] : in[i]);
    expected.push_back(i % 4 + 2 < 4 ? in[i + 2] : in[i]);
    expected.push_back(in[i ^ 6]);
  }
  expect_same(device.download(out), expected);
}

void shuffle_wide_types(Device& device) {
  const std::vector<double> a = device.reals<double>(size, -1, 1);
  std::vector<u64> b(size), expected_b;
  for (u64& value : b) value = device.random()();
  const Array<double> out_a = device.allocate<double>(size);
  const Array<u64> out_b = device.allocate<u64>(size);
  device.launch("shuffle_wide_types", {blocks}, {threads}, {device.upload(a), device.upload(b), out_a, out_b});
  std::vector<double> expected_a;
  for (size_t i = 0; i < size; i++) {
    expected_a.push_back(a[i ^ 31]);
    expected_b.push_back(i % 32 == 31 ? b[i] : b[i + 1]);
  }
  expect_same(device.download(out_a), expected_a);
  expect_same(device.download(out_b), expected_b);
}

/// The lanes of i's warp that satisfy `holds`.
u32 ballot(size_t i, const std::function<bool(size_t)>& holds) {
  u32 mask = 0;
  for (size_t lane = 0; lane < 32; lane++) mask |= u32{holds(i / 32 * 32 + lane)} << lane;
  return mask;
}

void votes(Device& device) {
  const std::vector<int> in = device.integers<int>(size, -98, 98);
  const Array<u32> ballots = device.allocate<u32>(size);
  const Array<int> flags = device.allocate<int>(size);
  device.launch("votes", {blocks}, {threads}, {device.upload(in), ballots, flags});
  std::vector<u32> expected;
  std::vector<int> expected_flags;
  for (size_t i = 0; i < size; i++) {
    expected.push_back(ballot(i, [&](size_t k) { return in[k] > 0; }));
    expected_flags.push_back((ballot(i, [&](size_t k) { return in[k] > 95; }) != 0) |
                             (ballot(i, [&](size_t k) { return in[k] > -95; }) == 0xFFFFFFFFu) << 1);
  }
  expect_same(device.download(ballots), expected);
  expect_same(device.download(flags), expected_flags);
}

void match_any(Device& device) {
  const std::vector<int> in = device.integers<int>(size, 0, 9);
  std::vector<u64> wide(size);
  for (u64& value : wide) value = static_cast<u64>(device.integer(0, 2)) << 32 | static_cast<u64>(device.integer(0, 1));
  const Array<u32> out = device.allocate<u32>(size), out_wide = device.allocate<u32>(size);
  device.launch("match_any", {blocks}, {threads}, {device.upload(in), out, device.upload(wide), out_wide});
  std::vector<u32> expected, expected_wide;
  for (size_t i = 0; i < size; i++) {
    expected.push_back(ballot(i, [&](size_t k) { return in[k] == in[i]; }));
    expected_wide.push_back(ballot(i, [&](size_t k) { return wide[k] == wide[i]; }));
  }
  expect_same(device.download(out), expected);
  expect_same(device.download(out_wide), expected_wide);
}

void reduce_sync(Device& device) {
  const std::vector<int> in = device.integers<int>(size, -100000, 100000);
  const Array<int> out = device.allocate<int>(7 * size);
  device.launch("reduce_sync", {blocks}, {threads}, {device.upload(in), out});
  std::vector<int> expected;
  for (size_t i = 0; i < size; i++) {
    const int* warp = in.data() + i / 32 * 32;
    int sum = 0, least = warp[0], most = warp[0];
    u32 largest = 0, all = ~0u, any = 0, odd = 0;
    for (size_t k = 0; k < 32; k++) {
      const u32 bits = static_cast<u32>(warp[k]);
      sum += warp[k];
      least = std::min(least, warp[k]);
      most = std::max(most, warp[k]);
      largest = std::max(largest, bits);
      all &= bits;
      any |= bits;
      odd ^= bits;
    }
    for (const u32 value : {u32(sum), u32(least), u32(most), largest, all, any, odd}) expected.push_back(int(value));
  }
  expect_same(device.download(out), expected);
}

void partial_warp(Device& device) {
  const int n = 333;
  const std::vector<int> in = device.integers<int>(n, -999, 999);
  const Array<int> out = device.allocate<int>(n);
  device.launch("partial_warp", {blocks}, {threads}, {device.upload(in), out, n});
  std::vector<int> expected;
  for (size_t i = 0; i < n; i++) expected.push_back(in[i / 32 * 32] + in[std::min<size_t>(i / 32 * 32 + 31, n - 1)]);
  expect_same(device.download(out), expected);
}

void aggregated_filter(Device& device) {
  const int n = 370;
  const std::vector<int> in = device.integers<int>(n, -99, 99);
  const Array<int> out = device.upload(std::vector<int>(size, -1)), count = device.upload(std::vector<int>{0});
  device.launch("aggregated_filter", {blocks}, {threads}, {device.upload(in), out, count, n});
  std::vector<int> expected, got = device.download(out);
  std::copy_if(in.begin(), in.end(), std::back_inserter(expected), [](int x) { return x > 0; });
  expect_same(device.download(count), {static_cast<int>(expected.size())});
  got.resize(expected.size());
  std::sort(got.begin(), got.end());
  std::sort(expected.begin(), expected.end());
  expect_same(got, expected);
}

void active_mask(Device& device) {
  const Array<u32> out = device.allocate<u32>(size);
  device.launch("active_mask", {blocks}, {threads}, {out});
  expect_same(device.download(out), std::vector<u32>(size, 1));
}

void lane_masks(Device& device) {
  const Array<u32> out = device.allocate<u32>(5 * size);
  device.launch("lane_masks", {blocks}, {threads}, {out});
  std::vector<u32> expected;
  for (size_t i = 0; i < size; i++) {
    const u32 equal = 1u << (i % 32), less = equal - 1;
    for (const u32 mask : {less, less | equal, equal, ~less, ~(less | equal)}) expected.push_back(mask);
  }
  expect_same(device.download(out), expected);
}

void segmented_sum(Device& device) {
  std::vector<int> keys(size), expected;
  const std::vector<int> values = device.integers<int>(size, -99, 99);
  for (size_t i = 1; i < size; i++) keys[i] = keys[i - 1] + static_cast<int>(device.integer(0, 4)) / 4;
  const Array<int> out = device.allocate<int>(size);
  device.launch("segmented_sum", {blocks}, {threads}, {device.upload(keys), device.upload(values), out});
  for (size_t i = 0; i < size; i++) {
    const bool goes_on = i % 32 != 0 && keys[i] == keys[i - 1];
    expected.push_back(values[i] + (goes_on ? expected.back() : 0));
  }
  expect_same(device.download(out), expected);
}

}  // namespace

Cases warp_cases() {
  Cases all = exchanges();
  const std::vector<std::pair<std::string, void (*)(Device&)>> programs{
      {"shuffle_down_sum", shuffle_down_sum},
      {"shuffle_index", shuffle_index},
      {"shuffle_widths", shuffle_widths},
      {"shuffle_wide_types", shuffle_wide_types},
      {"votes", votes},
      {"match_any", match_any},
      {"partial_warp", partial_warp},
      {"aggregated_filter", aggregated_filter},
      {"active_mask", active_mask},
      {"lane_masks", lane_masks},
      {"segmented_sum", segmented_sum},
  };
  for (const auto& [kernel, run] : programs) all.push_back({"warp", kernel, run});
  all.push_back({"warp", "reduce_sync", reduce_sync, 80});
  return all;
}

}  // namespace stepfuse::vgpu::corpus
