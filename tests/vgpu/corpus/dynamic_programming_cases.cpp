// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;

std::string random_word(Device& device, int shortest, int longest) {
  std::string word;
  for (int64_t k = device.integer(shortest, longest); k > 0; k--) word += static_cast<char>(device.integer('a', 'd'));
  return word;
}

/// A whole table of (size_a + 1) by (size_b + 1), filled by `cell` from the three neighbours before it.
int last_cell(const std::string& a, const std::string& b, const std::function<int(size_t, size_t)>& border,
              const std::function<int(bool, int, int, int)>& cell) {
  std::vector<std::vector<int>> table(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); i++) {
    for (size_t j = 0; j <= b.size(); j++) {
      table[i][j] = i == 0 || j == 0
                        ? border(i, j)
                        : cell(a[i - 1] == b[j - 1], table[i - 1][j - 1], table[i - 1][j], table[i][j - 1]);
    }
  }
  return table[a.size()][b.size()];
}

void edit_distance(Device& device) {
  std::vector<std::string> words{"kitten", "sitting", "", "abc"};  // the pair of every textbook: 3
  while (words.size() < 80) words.push_back(random_word(device, 0, 40));
  std::vector<char> text;
  std::vector<int> starts{0}, expected;
  for (const std::string& word : words) {
    text.insert(text.end(), word.begin(), word.end());
    starts.push_back(static_cast<int>(text.size()));
  }
  const Array<int> out = device.allocate<int>(40);
  device.launch("edit_distance", {2}, {32}, {device.upload(text), device.upload(starts), out, 40});
  for (size_t i = 0; i < words.size(); i += 2) {
    expected.push_back(last_cell(
        words[i], words[i + 1], [](size_t a, size_t b) { return static_cast<int>(a + b); },
        [](bool equal, int both, int first, int second) { return std::min({both + !equal, first + 1, second + 1}); }));
  }
  EXPECT_EQ(expected[0], 3);
  expect_same(device.download(out), expected);
}

void longest_common_subsequence(Device& device) {
  const std::string a = random_word(device, 60, 90), b = random_word(device, 60, 90);
  const auto size_a = static_cast<int>(a.size()), size_b = static_cast<int>(b.size());
  const Array<int> out = device.allocate<int>(1);
  device.launch("longest_common_subsequence", {1}, {64},
                {device.upload(std::vector<char>(a.begin(), a.end())), size_a,
                 device.upload(std::vector<char>(b.begin(), b.end())), size_b, out},
                static_cast<uint32_t>(3 * (a.size() + 1) * sizeof(int)));
  expect_same(
      device.download(out),
      {last_cell(
          a, b, [](size_t, size_t) { return 0; },
          [](bool equal, int both, int first, int second) { return equal ? both + 1 : std::max(first, second); })});
}

/// All choices, each once.
void knapsack(Device& device) {
  const int items = 10, capacity = 150;
  const std::vector<int> weights = device.integers<int>(items, 1, 50), values = device.integers<int>(items, 1, 99);
  const Array<int> out = device.allocate<int>(capacity + 1);
  device.launch("knapsack", {1}, {64}, {device.upload(weights), device.upload(values), items, capacity, out},
                2 * (capacity + 1) * sizeof(int));
  std::vector<int> expected(capacity + 1);
  for (int choice = 0; choice < 1 << items; choice++) {
    int weight = 0, value = 0;
    for (size_t k = 0; k < items; k++) {
      weight += (choice >> k & 1) * weights[k];
      value += (choice >> k & 1) * values[k];
    }
    for (int c = weight; c <= capacity; c++) expected[size_t(c)] = std::max(expected[size_t(c)], value);
  }
  expect_same(device.download(out), expected);
}

void longest_increasing(Device& device) {
  const int threads = 64, per_thread = 50;
  const std::vector<int> in = device.integers<int>(threads * per_thread, 0, 200);
  const Array<int> out = device.allocate<int>(threads);
  device.launch("longest_increasing", {2}, {32}, {device.upload(in), out, per_thread});
  std::vector<int> expected;
  for (size_t thread = 0; thread < threads; thread++) {
    std::vector<int> ending(per_thread, 1);
    for (size_t i = 0; i < per_thread; i++) {
      for (size_t j = 0; j < i; j++) {
        if (in[thread * per_thread + j] < in[thread * per_thread + i]) ending[i] = std::max(ending[i], ending[j] + 1);
      }
    }
    expected.push_back(*std::max_element(ending.begin(), ending.end()));
  }
  expect_same(device.download(out), expected);
}

/// Row r sums to 2^r, and every entry is r! / (k! (r - k)!) by the factors one after the other while that is small.
void binomials(Device& device) {
  const uint64_t rows = 100, prime = 1000000007;
  const Array<uint32_t> out = device.allocate<uint32_t>(rows * (rows + 1) / 2);
  device.launch("binomials", {1}, {128}, {out, static_cast<int>(rows)});
  const std::vector<uint32_t> got = device.download(out);
  uint64_t power = 1;
  for (uint64_t r = 0; r < rows; r++, power = power * 2 % prime) {
    uint64_t sum = 0, binomial = 1;
    for (uint64_t k = 0; k <= r; k++) {
      const uint64_t entry = got[r * (r + 1) / 2 + k];
      sum += entry;
      if (r <= 30) {
        EXPECT_EQ(entry, binomial % prime);
      }
      binomial = r <= 30 ? binomial * (r - k) / (k + 1) : 1;
    }
    EXPECT_EQ(sum % prime, power) << r;
  }
}

/// The best path among all that there are; whole scores, so that sums are exact. Ties may be broken differently: the
/// score is what counts.
void viterbi(Device& device) {
  const size_t states = 4, steps = 6;
  const std::vector<float> start = device.integers<float>(states, -99, 0),
                           transition = device.integers<float>(16, -99, 0),
                           emission = device.integers<float>(16, -99, 0);
  const std::vector<int> seen = device.integers<int>(steps, 0, 3);
  const Array<int> path = device.allocate<int>(steps);
  device.launch("viterbi", {1}, {states},
                {device.upload(start), device.upload(transition), device.upload(emission), device.upload(seen), path,
                 static_cast<int>(states), static_cast<int>(steps)},
                (2 + steps) * states * 4);
  const auto score = [&](const std::vector<int>& states_of) {
    float sum = 0;
    for (size_t k = 0; k < steps; k++) {
      const auto s = static_cast<size_t>(states_of[k]);
      sum += emission[s * 4 + static_cast<size_t>(seen[k])];
      sum += k == 0 ? start[s] : transition[static_cast<size_t>(states_of[k - 1]) * states + s];
    }
    return sum;
  };
  float best = -INFINITY;
  for (int code = 0; code < 4096; code++) {
    std::vector<int> tried;
    for (size_t k = 0; k < steps; k++) tried.push_back(code >> (2 * k) & 3);
    best = std::max(best, score(tried));
  }
  EXPECT_EQ(score(device.download(path)), best);
}

}  // namespace

Cases dynamic_programming_cases() {
  return {
      {"dynamic", "edit_distance", edit_distance},
      {"dynamic", "longest_common_subsequence", longest_common_subsequence},
      {"dynamic", "knapsack", knapsack},
      {"dynamic", "longest_increasing", longest_increasing},
      {"dynamic", "binomials", binomials},
      {"dynamic", "viterbi", viterbi},
  };
}

}  // namespace stepfuse::vgpu::corpus
