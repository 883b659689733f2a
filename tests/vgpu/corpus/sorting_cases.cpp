// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <numeric>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;
using u32 = uint32_t;

template <class T>
void sort_stretches(std::vector<T>& values, long stretch) {
  for (auto first = values.begin(); first != values.end(); first += stretch) std::sort(first, first + stretch);
}

void radix_sort_block(Device& device) {
  std::vector<u32> values = edge_values<u32>(device, 0, 512);
  std::shuffle(values.begin(), values.end(), device.random());
  const Array<u32> array = device.upload(values);
  device.launch("radix_sort_block", {2}, {256}, {array});
  sort_stretches(values, 256);
  expect_same(device.download(array), values);
}

void radix_count(Device& device) {
  const int n = 700, blocks = 3, shift = 8;
  const std::vector<u32> keys = edge_values<u32>(device, 0, n);
  const Array<u32> counts = device.allocate<u32>(16 * blocks);
  device.launch("radix_count", {blocks}, {256}, {device.upload(keys), counts, shift, n});
  std::vector<u32> expected(16 * blocks);
  for (size_t i = 0; i < n; i++) expected[(keys[i] >> shift & 15) * blocks + i / 256]++;
  expect_same(device.download(counts), expected);
}

/// Eight stable passes over four bits sort the keys; the scan between two kernels is the host's.
void radix_scatter(Device& device) {
  const int n = 700, blocks = 3;
  std::vector<u32> keys = edge_values<u32>(device, 0, n);
  std::shuffle(keys.begin(), keys.end(), device.random());
  Array<u32> in = device.upload(keys), out = device.allocate<u32>(n);
  const Array<u32> counts = device.allocate<u32>(16 * blocks);
  for (int shift = 0; shift < 32; shift += 4) {
    device.launch("radix_count", {blocks}, {256}, {in, counts, shift, n});
    std::vector<u32> offsets = device.download(counts);
    std::exclusive_scan(offsets.begin(), offsets.end(), offsets.begin(), 0u);
    device.launch("radix_scatter", {blocks}, {256}, {in, device.upload(offsets), out, shift, n});
    std::swap(in, out);
  }
  std::sort(keys.begin(), keys.end());
  expect_same(device.download(in), keys);
}

void merge_path(Device& device) {
  const int size_a = 400, size_b = 231, per_thread = 7;
  std::vector<int> a = device.integers<int>(size_a, -99, 99), b = device.integers<int>(size_b, -99, 99), expected;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  const Array<int> out = device.allocate<int>(size_a + size_b);
  device.launch("merge_path", {2}, {64}, {device.upload(a), size_a, device.upload(b), size_b, out, per_thread});
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
  expect_same(device.download(out), expected);
}

void odd_even_sort(Device& device) {
  const int n = 101;
  std::vector<int16_t> values = device.integers<int16_t>(n, -999, 999);
  const Array<int16_t> array = device.upload(values);
  device.launch("odd_even_sort", {1}, {64}, {array, n}, n * 2);
  std::sort(values.begin(), values.end());
  expect_same(device.download(array), values);
}

void rank_sort(Device& device) {
  const int n = 150;
  std::vector<float> values = device.integers<float>(n, -50, 50);
  const Array<float> out = device.allocate<float>(n);
  device.launch("rank_sort", {2}, {96}, {device.upload(values), out, n});
  std::sort(values.begin(), values.end());
  expect_same(device.download(out), values);
}

void quick_sort(Device& device) {
  const int threads = 64, per_thread = 40;
  std::vector<int> values = device.integers<int>(threads * per_thread, -99, 99);
  const Array<int> array = device.upload(values);
  device.launch("quick_sort", {2}, {threads / 2}, {array, per_thread});
  sort_stretches(values, per_thread);
  expect_same(device.download(array), values);
}

void compact_stable(Device& device) {
  const int n = 900;
  const std::vector<int> in = device.integers<int>(n, -999, 999);
  const Array<int> out = device.allocate<int>(n), count = device.allocate<int>(1);
  device.launch("compact_stable", {1}, {128}, {device.upload(in), out, count, n});
  std::vector<int> expected, got = device.download(out);
  std::copy_if(in.begin(), in.end(), std::back_inserter(expected), [](int x) { return x % 3 == 0; });
  expect_same(device.download(count), {static_cast<int>(expected.size())});
  got.resize(expected.size());
  expect_same(got, expected);
}

void select_kth(Device& device) {
  const int n = 300;
  std::vector<u32> values = edge_values<u32>(device, 0, n);
  const std::vector<int> ks{0, 7, n / 2, n - 1};
  const Array<u32> out = device.allocate<u32>(ks.size());
  device.launch("select_kth", {4}, {96}, {device.upload(values), n, device.upload(ks), out});
  std::sort(values.begin(), values.end());
  std::vector<u32> expected;
  for (const int k : ks) expected.push_back(values[static_cast<size_t>(k)]);
  expect_same(device.download(out), expected);
}

/// The first `count` numbers of an array that threads filled in any order.
std::vector<int> gathered(Device& device, const Array<int>& places, const Array<int>& count) {
  std::vector<int> got = device.download(places);
  got.resize(static_cast<size_t>(device.download(count)[0]));
  std::sort(got.begin(), got.end());
  return got;
}

void find_string(Device& device) {
  const int size = 1500;
  const std::vector<char> text = device.integers<char>(size, 'a', 'c'), pattern{'a', 'b', 'a', 'b'};
  const Array<int> places = device.allocate<int>(size), count = device.upload(std::vector<int>{0});
  device.launch("find_string", {3}, {128}, {device.upload(text), size, device.upload(pattern), 4, places, count});
  std::vector<int> expected;
  for (auto at = text.begin(); at != text.end(); at++) {
    at = std::search(at, text.end(), pattern.begin(), pattern.end());
    if (at == text.end()) break;
    expected.push_back(static_cast<int>(at - text.begin()));
  }
  expect_same(gathered(device, places, count), expected);
}

void run_lengths(Device& device) {
  const int n = 600;
  const std::vector<uint8_t> in = device.integers<uint8_t>(n, 0, 1);
  const Array<int> starts = device.allocate<int>(n), count = device.upload(std::vector<int>{0});
  device.launch("run_lengths", {5}, {128}, {device.upload(in), starts, count, n});
  std::vector<int> expected{0};
  for (size_t i = 1; i < n; i++) {
    if (in[i] != in[i - 1]) expected.push_back(static_cast<int>(i));
  }
  expect_same(gathered(device, starts, count), expected);
}

void chained_scan(Device& device) {
  const int n = 700, blocks = 6;
  const std::vector<int> in = device.integers<int>(n, -99, 99);
  const Array<int> out = device.allocate<int>(n), sums = device.allocate<int>(blocks);
  const Array<int> ready = device.upload(std::vector<int>(blocks, 0));
  device.launch("chained_scan", {blocks}, {128}, {device.upload(in), out, sums, ready, n}, 0, true);
  std::vector<int> expected(n);
  std::partial_sum(in.begin(), in.end(), expected.begin());
  expect_same(device.download(out), expected);
}

}  // namespace

Cases sorting_cases() {
  const std::vector<std::pair<std::string, void (*)(Device&)>> programs{
      {"radix_sort_block", radix_sort_block},
      {"radix_count", radix_count},
      {"radix_scatter", radix_scatter},
      {"merge_path", merge_path},
      {"odd_even_sort", odd_even_sort},
      {"rank_sort", rank_sort},
      {"quick_sort", quick_sort},
      {"compact_stable", compact_stable},
      {"select_kth", select_kth},
      {"find_string", find_string},
      {"run_lengths", run_lengths},
      {"chained_scan", chained_scan},
  };
  Cases all;
  for (const auto& [kernel, run] : programs) all.push_back({"sorting", kernel, run});
  return all;
}

}  // namespace stepfuse::vgpu::corpus
