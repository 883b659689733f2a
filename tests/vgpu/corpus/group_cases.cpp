// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <numeric>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;

constexpr size_t blocks = 3, threads = 128, size = blocks * threads;

void tile_reduce(Device& device) {
  const std::vector<int> in = device.integers<int>(size, -999, 999);
  const Array<int> out = device.allocate<int>(size / 8);
  device.launch("tile_reduce", {blocks}, {threads}, {device.upload(in), out});
  std::vector<int> expected;
  for (auto first = in.begin(); first != in.end(); first += 16) {
    expected.push_back(std::accumulate(first, first + 16, 0));
    expected.push_back(*std::min_element(first, first + 16));
  }
  expect_same(device.download(out), expected);
}

void tile_scan(Device& device) {
  const std::vector<int> in = device.integers<int>(size, -999, 999);
  const Array<int> out = device.allocate<int>(size);
  device.launch("tile_scan", {blocks}, {threads}, {device.upload(in), out});
  std::vector<int> expected;
  for (size_t i = 0; i < size; i++) expected.push_back(i % 32 == 0 ? 0 : expected.back() + in[i - 1]);
  expect_same(device.download(out), expected);
}

void tile_shuffles(Device& device) {
  const std::vector<double> in = device.integers<double>(size, -999, 999);
  const Array<double> out = device.allocate<double>(size);
  device.launch("tile_shuffles", {blocks}, {threads}, {device.upload(in), out});
  std::vector<double> expected;
  for (size_t i = 0; i < size; i++) {
    const auto first = in.begin() + static_cast<long>(i / 8 * 8);
    expected.push_back(std::accumulate(first, first + 8, 0.0) + static_cast<double>(i % threads / 8));
  }
  expect_same(device.download(out), expected);
}

void coalesced_count(Device& device) {
  const int n = 350;
  const std::vector<int> in = device.integers<int>(n, 0, 999);
  const Array<int> out = device.upload(std::vector<int>{7});
  device.launch("coalesced_count", {blocks}, {threads}, {device.upload(in), out, n});
  expect_same(device.download(out),
              {7 + static_cast<int>(std::count_if(in.begin(), in.end(), [](int x) { return x % 3 == 0; }))});
}

void block_group(Device& device) {
  const std::vector<int> in = device.integers<int>(size, 0, 999);
  const Array<int> out = device.allocate<int>(size);
  device.launch("block_group", {blocks}, {threads}, {device.upload(in), out});
  std::vector<int> expected;
  for (size_t i = 0; i < size; i++) expected.push_back(in[i / threads * threads + threads - 1 - i % threads]);
  expect_same(device.download(out), expected);
}

void tile_votes(Device& device) {
  const std::vector<int> in = device.integers<int>(size, -70, 70);
  const Array<uint32_t> out = device.allocate<uint32_t>(size);
  device.launch("tile_votes", {blocks}, {threads}, {device.upload(in), out});
  std::vector<uint32_t> expected;
  for (size_t i = 0; i < size; i++) {
    uint32_t ballot = 0, any = 0, all = 1;
    for (size_t k = 0; k < 4; k++) {
      const int value = in[i / 4 * 4 + k];
      ballot |= uint32_t{value > 0} << k;
      any |= uint32_t{value > 50};
      all &= uint32_t{value > -50};
    }
    expected.push_back(ballot | any << 8 | all << 9);
  }
  expect_same(device.download(out), expected);
}

}  // namespace

Cases group_cases() {
  return {
      {"groups", "tile_reduce", tile_reduce},     {"groups", "tile_scan", tile_scan},
      {"groups", "tile_shuffles", tile_shuffles}, {"groups", "coalesced_count", coalesced_count},
      {"groups", "block_group", block_group},     {"groups", "tile_votes", tile_votes},
  };
}

}  // namespace stepfuse::vgpu::corpus
