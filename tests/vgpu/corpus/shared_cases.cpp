// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <numeric>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;

// Sums of small whole numbers are exact in any order, so that matrices compare equal.

void transpose(Device& device) {
  const int width = 50, height = 37;
  const std::vector<float> in = device.reals<float>(width * height, -1, 1);
  const Array<float> out = device.allocate<float>(in.size());
  device.launch("transpose", {4, 3}, {16, 16}, {device.upload(in), out, width, height});
  std::vector<float> expected;
  for (int x = 0; x < width; x++) {
    for (int y = 0; y < height; y++) expected.push_back(in[size_t(y * width + x)]);
  }
  expect_same(device.download(out), expected);
}

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, size_t m, size_t n, size_t k) {
  std::vector<float> c(m * n);
  for (size_t i = 0; i < m; i++) {
    for (size_t j = 0; j < n; j++) {
      for (size_t l = 0; l < k; l++) c[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
  return c;
}

void matrix_multiply(Device& device) {
  const int m = 37, n = 21, k = 50;
  const std::vector<float> a = device.integers<float>(m * k, -9, 9), b = device.integers<float>(k * n, -9, 9);
  const Array<float> c = device.allocate<float>(m * n);
  device.launch("matrix_multiply", {2, 3}, {16, 16}, {device.upload(a), device.upload(b), c, m, n, k});
  expect_same(device.download(c), product(a, b, m, n, k));
}

void matrix_multiply_registers(Device& device) {
  const int n = 64;
  const std::vector<float> a = device.integers<float>(n * n, -9, 9), b = device.integers<float>(n * n, -9, 9);
  const Array<float> c = device.allocate<float>(n * n);
  device.launch("matrix_multiply_registers", {1, 1}, {256}, {device.upload(a), device.upload(b), c, n});
  expect_same(device.download(c), product(a, b, n, n, n));
}

void histogram(Device& device) {
  const int n = 3000;
  const std::vector<uint8_t> in = device.integers<uint8_t>(n, 0, 255);
  const Array<uint32_t> bins = device.upload(std::vector<uint32_t>(256, 5));
  device.launch("histogram", {5}, {96}, {device.upload(in), bins, n});
  std::vector<uint32_t> expected(256, 5);
  for (const uint8_t value : in) expected[value]++;
  expect_same(device.download(bins), expected);
}

void scan_inclusive(Device& device) {
  const std::vector<int> in = device.integers<int>(3 * 256, -99, 99);
  const Array<int> out = device.allocate<int>(in.size());
  device.launch("scan_inclusive", {3}, {256}, {device.upload(in), out});
  std::vector<int> expected(in.size());
  for (long first = 0; first < 768; first += 256) {
    std::partial_sum(in.begin() + first, in.begin() + first + 256, expected.begin() + first);
  }
  expect_same(device.download(out), expected);
}

void scan_exclusive(Device& device) {
  const std::vector<int> in = device.integers<int>(3 * 128, -99, 99);
  const Array<int> out = device.allocate<int>(in.size()), totals = device.allocate<int>(3);
  device.launch("scan_exclusive", {3}, {64}, {device.upload(in), out, totals}, 128 * sizeof(int));
  std::vector<int> expected(in.size()), expected_totals;
  for (long first = 0; first < 384; first += 128) {
    std::exclusive_scan(in.begin() + first, in.begin() + first + 128, expected.begin() + first, 0);
    expected_totals.push_back(std::accumulate(in.begin() + first, in.begin() + first + 128, 0));
  }
  expect_same(device.download(out), expected);
  expect_same(device.download(totals), expected_totals);
}

void bitonic_sort(Device& device) {
  std::vector<uint32_t> values = edge_values<uint32_t>(device, 0, 2 * 128);
  std::shuffle(values.begin(), values.end(), device.random());
  const Array<uint32_t> array = device.upload(values);
  device.launch("bitonic_sort", {2}, {128}, {array}, 128 * sizeof(uint32_t));
  std::sort(values.begin(), values.begin() + 128);
  std::sort(values.begin() + 128, values.end());
  expect_same(device.download(array), values);
}

void stencil_1d(Device& device) {
  const int n = 500;
  const std::vector<int> in = device.integers<int>(n, -99, 99);
  const Array<int> out = device.allocate<int>(n);
  device.launch("stencil_1d", {4}, {128}, {device.upload(in), out, n});
  std::vector<int> expected(n);
  for (int i = 0; i < n; i++) {
    for (int k = std::max(0, i - 3); k <= std::min(n - 1, i + 3); k++) expected[size_t(i)] += in[size_t(k)];
  }
  expect_same(device.download(out), expected);
}

void convolution_2d(Device& device) {
  const int width = 40, height = 23;
  const std::vector<float> in = device.integers<float>(width * height, -9, 9),
                           filter = device.integers<float>(25, -3, 3);
  const Array<float> out = device.allocate<float>(in.size());
  device.launch("convolution_2d", {3, 2}, {16, 16}, {device.upload(in), device.upload(filter), out, width, height});
  std::vector<float> expected(in.size());
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++) {
      for (int k = 0; k < 25; k++) {
        const int u = x + k % 5 - 2, v = y + k / 5 - 2;
        if (u < 0 || u >= width || v < 0 || v >= height) continue;
        expected[size_t(y * width + x)] += filter[size_t(k)] * in[size_t(v * width + u)];
      }
    }
  }
  expect_near(device.download(out), expected, 0);  // the sign of a zero follows the order
}

void reverse_block(Device& device) {
  std::vector<int> values = device.integers<int>(4 * 100, -999, 999);
  const Array<int> array = device.upload(values);
  device.launch("reverse_block", {4}, {100}, {array}, 100 * sizeof(int));
  for (long first = 0; first < 400; first += 100) std::reverse(values.begin() + first, values.begin() + first + 100);
  expect_same(device.download(array), values);
}

void shared_arena(Device& device) {
  const size_t threads = 48, blocks = 3;
  const std::vector<double> a = device.reals<double>(threads * blocks, -1, 1);
  const std::vector<int16_t> b = device.integers<int16_t>(threads * blocks, -30000, 30000);
  const Array<double> out = device.allocate<double>(a.size());
  device.launch("shared_arena", {blocks}, {threads}, {device.upload(a), device.upload(b), out}, threads * 14);
  std::vector<double> expected;
  for (size_t i = 0; i < a.size(); i++) {
    const size_t first = i / threads * threads, next = first + (i + 1) % threads, third = first + (i + 2) % threads;
    expected.push_back(a[next] * (b[next] + b[third]));
  }
  expect_same(device.download(out), expected);
}

void barrier_counts(Device& device) {
  const long threads = 150, blocks = 6;
  const std::vector<int> in = device.integers<int>(threads * blocks, -91, 91);
  const Array<int> out = device.allocate<int>(3 * blocks);
  device.launch("barrier_counts", {blocks}, {threads}, {device.upload(in), out});
  std::vector<int> expected;
  for (long block = 0; block < blocks; block++) {
    const auto first = in.begin() + block * threads, last = first + threads;
    expected.push_back(static_cast<int>(std::count_if(first, last, [](int x) { return x > 0; })));
    expected.push_back(std::all_of(first, last, [](int x) { return x > -90; }));
    expected.push_back(std::any_of(first, last, [](int x) { return x > 90; }));
  }
  expect_same(device.download(out), expected);
}

void named_barriers(Device& device) {
  const int rounds = 5, blocks = 2;
  const std::vector<int> in = device.integers<int>(96 * rounds * blocks, -999, 999);
  const Array<int> out = device.allocate<int>(96 * blocks);
  device.launch("named_barriers", {blocks}, {128}, {device.upload(in), out, rounds});
  std::vector<int> expected(96 * blocks);
  for (size_t i = 0; i < in.size(); i++) {
    const size_t round = i / 96 % rounds, block = i / 96 / rounds;
    expected[block * 96 + 95 - i % 96] += in[i] * static_cast<int>(round + 1);
  }
  expect_same(device.download(out), expected);
}

void templated_maximum(Device& device) {
  const std::vector<int> a = device.integers<int>(3 * 128, -99999, 99999);
  const std::vector<double> b = device.reals<double>(3 * 128, -1, 1);
  const Array<int> out_a = device.allocate<int>(3);
  const Array<double> out_b = device.allocate<double>(3);
  device.launch("templated_maximum", {3}, {128}, {device.upload(a), device.upload(b), out_a, out_b});
  std::vector<int> expected_a;
  std::vector<double> expected_b;
  for (long first = 0; first < 384; first += 128) {
    expected_a.push_back(*std::max_element(a.begin() + first, a.begin() + first + 128));
    expected_b.push_back(*std::max_element(b.begin() + first, b.begin() + first + 128));
  }
  expect_same(device.download(out_a), expected_a);
  expect_same(device.download(out_b), expected_b);
}

}  // namespace

Cases shared_cases() {
  const std::vector<std::pair<std::string, void (*)(Device&)>> programs{
      {"transpose", transpose},
      {"matrix_multiply", matrix_multiply},
      {"matrix_multiply_registers", matrix_multiply_registers},
      {"histogram", histogram},
      {"scan_inclusive", scan_inclusive},
      {"scan_exclusive", scan_exclusive},
      {"bitonic_sort", bitonic_sort},
      {"stencil_1d", stencil_1d},
      {"convolution_2d", convolution_2d},
      {"reverse_block", reverse_block},
      {"shared_arena", shared_arena},
      {"barrier_counts", barrier_counts},
      {"named_barriers", named_barriers},
      {"templated_maximum", templated_maximum},
  };
  Cases all;
  for (const auto& [kernel, run] : programs) all.push_back({"shared", kernel, run});
  return all;
}

}  // namespace stepfuse::vgpu::corpus
