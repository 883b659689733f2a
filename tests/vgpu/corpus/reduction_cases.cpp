// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <numeric>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;

/// Sums of whole numbers below 2^24 in size are exact in any order.
template <class T>
void sum_rows(Device& device, const char* kernel) {
  const int rows = 4, columns = 1003;
  const std::vector<T> in = device.integers<T>(rows * columns, -999, 999);
  const Array<T> out = device.allocate<T>(rows);
  device.launch(kernel, {rows}, {160}, {device.upload(in), out, columns});
  std::vector<T> expected(rows);
  for (size_t i = 0; i < in.size(); i++) expected[i / columns] += in[i];
  expect_same(device.download(out), expected);
}

/// Mean and the sum of squared distances from it of each row, in double.
std::vector<std::pair<double, double>> moments(const std::vector<float>& in, size_t columns) {
  std::vector<std::pair<double, double>> all;
  for (size_t first = 0; first < in.size(); first += columns) {
    double sum = 0, squares = 0;
    for (size_t i = first; i < first + columns; i++) sum += static_cast<double>(in[i]);
    const double mean = sum / static_cast<double>(columns);
    for (size_t i = first; i < first + columns; i++) squares += std::pow(static_cast<double>(in[i]) - mean, 2);
    all.emplace_back(mean, squares);
  }
  return all;
}

void variances(Device& device, const char* kernel, int less) {
  const int rows = 3, columns = 700;
  const std::vector<float> in = device.reals<float>(rows * columns, 9, 11);
  const Array<float> out = device.allocate<float>(2 * rows);
  device.launch(kernel, {rows}, {128}, {device.upload(in), out, columns});
  std::vector<double> expected;
  for (const auto& [mean, squares] : moments(in, columns)) {
    expected.push_back(mean);
    expected.push_back(squares / (columns - less));
  }
  expect_near(device.download(out), expected, 1e-4);
}

void sum_vectorized(Device& device) {
  const int n = 4099;
  const std::vector<float> in = device.integers<float>(n, -99, 99);
  const Array<float> out = device.upload(std::vector<float>{0});
  device.launch("sum_vectorized", {4}, {128}, {device.upload(in), out, n});
  expect_same(device.download(out), {std::accumulate(in.begin(), in.end(), 0.0f)});
}

/// Twice: the ticket counter must come back to zero by itself.
void sum_last_block(Device& device) {
  const int n = 3001, blocks = 7;
  for (int repeat = 0; repeat < 2; repeat++) {
    const std::vector<float> in = device.integers<float>(n, -99, 99);
    const Array<float> partial = device.allocate<float>(blocks), out = device.allocate<float>(1);
    device.launch("sum_last_block", {blocks}, {96}, {device.upload(in), partial, out, n});
    expect_same(device.download(out), {std::accumulate(in.begin(), in.end(), 0.0f)});
  }
}

void arg_max(Device& device) {
  const int rows = 5, columns = 900;
  const std::vector<float> in = device.integers<float>(rows * columns, -99, 99);  // many equal: the first counts
  const Array<int> out = device.allocate<int>(rows);
  device.launch("arg_max", {rows}, {128}, {device.upload(in), out, columns});
  std::vector<int> expected;
  for (auto row = in.begin(); row != in.end(); row += columns) {
    expected.push_back(static_cast<int>(std::max_element(row, row + columns) - row));
  }
  expect_same(device.download(out), expected);
}

void sum_tree(Device& device, const char* kernel, uint32_t threads) {
  const int n = 5000, blocks = 3;
  const std::vector<int> in = device.integers<int>(n, -99999, 99999);
  const Array<int> out = device.allocate<int>(blocks);
  device.launch(kernel, {blocks}, {threads}, {device.upload(in), out, n});
  std::vector<int> expected(blocks);
  for (size_t i = 0; i < n; i++) expected[i / (2 * threads) % blocks] += in[i];
  expect_same(device.download(out), expected);
}

void sum_columns(Device& device) {
  const int rows = 77, columns = 50;
  const std::vector<float> in = device.integers<float>(rows * columns, -999, 999);
  const Array<float> out = device.allocate<float>(columns);
  device.launch("sum_columns", {2}, {32, 8}, {device.upload(in), out, rows, columns});
  std::vector<float> expected(columns);
  for (size_t i = 0; i < in.size(); i++) expected[i % columns] += in[i];
  expect_same(device.download(out), expected);
}

void dot_product(Device& device) {
  const int n = 2000;
  const std::vector<float> a = device.integers<float>(n, -9999, 9999), b = device.integers<float>(n, -9999, 9999);
  const Array<double> out = device.upload(std::vector<double>{0});
  device.launch("dot_product", {3}, {128}, {device.upload(a), device.upload(b), out, n});
  double expected = 0;
  for (size_t i = 0; i < n; i++) expected += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  expect_same(device.download(out), {expected});
}

void find_infinite(Device& device) {
  const int n = 1500;
  std::vector<float> in = device.reals<float>(n, -3e38, 3e38);
  for (const float bad : {0.0f, INFINITY, -INFINITY, NAN}) {
    in[static_cast<size_t>(device.integer(0, n - 1))] = bad;
    const Array<float> found = device.upload(std::vector<float>{0});
    device.launch("find_infinite", {3}, {128}, {device.upload(in), found, n});
    expect_same(device.download(found), {bad == 0 ? 0.0f : 1.0f});
    for (float& value : in) value = std::isfinite(value) ? value : 1.0f;
  }
}

/// Every round adds the total to each number, so that totals grow by n + 1: whole numbers that float holds exactly.
void normalize_across_blocks(Device& device) {
  const int n = 200, blocks = 4, rounds = 3;
  std::vector<float> values(n);
  values[static_cast<size_t>(device.integer(0, n - 1))] = 1;
  const Array<float> array = device.upload(values), sums = device.allocate<float>(blocks * rounds);
  device.launch("normalize_across_blocks", {blocks}, {64}, {array, sums, n, rounds}, 0, true);
  for (int round = 0; round < rounds; round++) {
    const float total = std::accumulate(values.begin(), values.end(), 0.0f);
    for (float& value : values) value += total;
  }
  expect_same(device.download(array), values);
}

}  // namespace

Cases reduction_cases() {
  return {
      {"reduce", "sum_rows", [](Device& device) { sum_rows<float>(device, "sum_rows"); }},
      {"reduce", "sum_rows_double", [](Device& device) { sum_rows<double>(device, "sum_rows_double"); }},
      {"reduce", "mean_and_variance", [](Device& device) { variances(device, "mean_and_variance", 1); }},
      {"reduce", "welford", [](Device& device) { variances(device, "welford", 0); }},
      {"reduce", "sum_vectorized", sum_vectorized},
      {"reduce", "sum_last_block", sum_last_block},
      {"reduce", "arg_max", arg_max},
      {"reduce", "sum_tree_64", [](Device& device) { sum_tree(device, "sum_tree_64", 64); }},
      {"reduce", "sum_tree_256", [](Device& device) { sum_tree(device, "sum_tree_256", 256); }},
      {"reduce", "sum_columns", sum_columns},
      {"reduce", "dot_product", dot_product},
      {"reduce", "find_infinite", find_infinite, 0, false},  // blocks write the same 1 side by side
      {"reduce", "normalize_across_blocks", normalize_across_blocks},
  };
}

}  // namespace stepfuse::vgpu::corpus
