// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;

constexpr int n = 300;

/// kernel(in, out, n), one number out of one number and its place.
template <class In, class Out>
Case per_element(const std::string& source, const std::string& kernel, Out (*reference)(In x, int i)) {
  return {source, kernel, [=](Device& device) {
            const std::vector<In> in = device.integers<In>(n, -99, 99);
            const Array<Out> out = device.allocate<Out>(n);
            device.launch(kernel, {3}, {128}, {device.upload(in), out, n});
            std::vector<Out> expected;
            for (int i = 0; i < n; i++) expected.push_back(reference(in[static_cast<size_t>(i)], i));
            expect_same(device.download(out), expected);
          }};
}

int function_table(int x, int i) {
  switch (x & 3) {
    case 0:
      return x + i;
    case 1:
      return x - i;
    case 2:
      return x * i;
    default:
      return std::max(x, i);
  }
}

using Vector = std::array<float, 3>;

void structure_call(Device& device) {
  const std::vector<float> a = device.integers<float>(3 * n, -99, 99), b = device.integers<float>(3 * n, -99, 99);
  const Array<float> out = device.allocate<float>(3 * n);
  device.launch("structure_call", {3}, {128}, {device.upload(a), device.upload(b), out, n});
  std::vector<float> expected;
  for (size_t i = 0; i < 3 * n; i++) {
    const size_t first = i / 3 * 3, next = first + (i + 1) % 3, last = first + (i + 2) % 3;
    expected.push_back(a[next] * b[last] - a[last] * b[next]);
  }
  expect_near(device.download(out), expected, 0);  // but for the sign of zero
}

/// Unipotent matrices: the power of 1 + N is known, (1 + N)^k = 1 + k N + k (k - 1) / 2 N^2.
void matrix_power(Device& device) {
  const int exponent = 13;
  std::vector<float> in, expected;
  for (int i = 0; i < n; i++) {
    const float a = static_cast<float>(device.integer(-9, 9)), b = static_cast<float>(device.integer(-9, 9)),
                c = static_cast<float>(device.integer(-9, 9));
    in.insert(in.end(), {1, a, b, 0, 1, c, 0, 0, 1});
    expected.insert(expected.end(), {1, 13 * a, 13 * b + 78 * a * c, 0, 1, 13 * c, 0, 0, 1});
  }
  const Array<float> out = device.allocate<float>(in.size());
  device.launch("matrix_power", {3}, {128}, {device.upload(in), out, n, exponent});
  expect_near(device.download(out), expected, 0);
}

struct Pair {
  int64_t key;
  int32_t value;
  int8_t tag;
};

void wide_structure_call(Device& device) {
  std::vector<Pair> in(n);
  for (Pair& pair : in) {
    pair.key = static_cast<int64_t>(device.random()());
    pair.value = static_cast<int32_t>(device.random()());
    pair.tag = static_cast<int8_t>(device.integer(-9, 9));
  }
  const Array<Pair> out = device.allocate<Pair>(n);
  device.launch("wide_structure_call", {3}, {128}, {device.upload(in), out, n});
  const std::vector<Pair> got = device.download(out);
  for (size_t i = 0; i < n; i++) {
    uint64_t key = static_cast<uint64_t>(in[i].key);
    uint32_t value = static_cast<uint32_t>(in[i].value);
    for (int k = 0; k < 3; k++) {
      key = key * 6364136223846793005u + 1442695040888963407u;
      value ^= static_cast<uint32_t>(static_cast<int64_t>(key) >> 33);
    }
    ASSERT_EQ(static_cast<uint64_t>(got[i].key), key);
    ASSERT_EQ(static_cast<uint32_t>(got[i].value), value);
    ASSERT_EQ(got[i].tag, in[i].tag + 3);
  }
}

void results_by_pointer(Device& device) {
  const std::vector<int> in = device.integers<int>(n, -9999, 9999);
  const Array<int> out = device.allocate<int>(2 * n);
  device.launch("results_by_pointer", {3}, {128}, {device.upload(in), out, n});
  std::vector<int> expected;
  for (const int x : in) {
    expected.push_back(x / 7);
    expected.push_back(x / 7 % 5 + 10 * (x % 7) + 1000 * (x / 35));
  }
  expect_same(device.download(out), expected);
}

/// A(0, n) = n + 1, A(1, n) = n + 2, A(2, n) = 2 n + 3.
void recursion(Device& device) {
  const Array<uint32_t> out = device.allocate<uint32_t>(12);
  device.launch("recursion", {1}, {12}, {out});
  expect_same(device.download(out), {1, 2, 3, 4, 2, 3, 4, 5, 3, 5, 7, 9});
}

void shuffle_in_function(Device& device) {
  const std::vector<float> in = device.integers<float>(256, -99, 99);
  const Array<float> out = device.allocate<float>(256);
  device.launch("shuffle_in_function", {2}, {128}, {device.upload(in), out});
  std::vector<float> expected;
  for (size_t i = 0; i < 256; i++) expected.push_back(in[i / 32 * 32 + 31 - i % 32] + in[i / 32 * 32 + 3]);
  expect_same(device.download(out), expected);
}

void barriers_in_functions(Device& device) {
  const std::vector<int> in = device.integers<int>(256, -99, 99);
  const Array<int> out = device.allocate<int>(256);
  device.launch("barriers_in_functions", {2}, {128}, {device.upload(in), out});
  std::vector<int> expected;
  for (size_t i = 0; i < 256; i++) expected.push_back(in[i / 128 * 128 + (i + 66) % 128] + 1);
  expect_same(device.download(out), expected);
}

Cases called_functions() {
  return {
      per_element<int, int>(
          "functions", "plain_call", +[](int x, int i) { return x + 2 * i + 3 * (1 + 2 * x + 6); }),
      per_element<float, float>(
          "functions", "lambda_call", +[](float m, int) { return 8 * m + 4; }),
      per_element<int, int64_t>(
          "functions", "templates",
          +[](int x, int) { return int64_t{3} * x * x * x - 2 * x * x + 7 * x + 11 + 1307674368000; }),
      {"functions", "structure_call", structure_call},
      {"functions", "matrix_power", matrix_power},
      {"functions", "wide_structure_call", wide_structure_call},
      {"functions", "results_by_pointer", results_by_pointer},
      {"refused_recursion", "recursion", recursion, 0, true, "recursion"},
      {"functions", "shuffle_in_function", shuffle_in_function},
      {"functions", "barriers_in_functions", barriers_in_functions},
  };
}

}  // namespace

Cases function_cases() {
  Cases all = called_functions();
  for (Case refused : {
           per_element<int, int>("refused_indirect", "function_table", function_table),
           per_element<int, int>(
               "refused_indirect", "virtual_call", +[](int x, int i) { return (x % 2 == 0 ? x * x : x * i) + 1; }),
       }) {
    refused.refused = "indirect calls";
    all.push_back(refused);
  }
  return all;
}

}  // namespace stepfuse::vgpu::corpus
