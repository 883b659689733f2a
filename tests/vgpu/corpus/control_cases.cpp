// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <functional>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;
using u32 = uint32_t;

constexpr int n = 500;

/// kernel(in, out, n): out[i] follows from in and i.
template <class In, class Out>
Case per_element(const std::string& kernel, int low, int high, Out (*reference)(const std::vector<In>& in, size_t i)) {
  return {"control", kernel, [=](Device& device) {
            const std::vector<In> in = device.integers<In>(n, low, high);
            const Array<Out> out = device.allocate<Out>(n);
            device.launch(kernel, {4}, {128}, {device.upload(in), out, n});
            std::vector<Out> expected;
            for (size_t i = 0; i < n; i++) expected.push_back(reference(in, i));
            expect_same(device.download(out), expected);
          }};
}

int dense_switch(const std::vector<int>& in, size_t i) {
  const int x = in[i];
  const std::vector<std::function<int()>> cases{
      [&] { return x + 1; }, [&] { return x * 3; },  [&] { return x ^ 0x55; }, [&] { return -x; },
      [&] { return x / 5; }, [&] { return x - 77; }, [&] { return x - 77; },   [&] { return x % 9; },
      [&] { return ~x; },    [&] { return x * x; },  [&] { return x >> 3; },   [&] { return x | 1024; },
  };
  const size_t index = static_cast<size_t>(x & 15);
  return index < cases.size() ? cases[index]() : 12345;
}

int sum_while(int value, const std::function<bool(int)>& goes_on, const std::function<int(int)>& next) {
  int sum = 0;
  for (; goes_on(value); value = next(value)) sum += value;
  return sum;
}

int switch_with_loops(const std::vector<int>& in, size_t i) {
  int x = in[i], sum = 0;
  if (x % 8 == 0) {
    for (int k = 0; k < x; k++) sum += k * k % 7;
    return sum;
  }
  if (x % 8 == 1) return sum_while(x, [](int k) { return k > 0; }, [](int k) { return k / 2; });
  if (x % 8 == 2) {
    for (int k = 1; k < x; k *= 3) sum ^= k;
    return sum;
  }
  if (x % 8 == 3) return sum_while(x, [](int k) { return k % 7 != 0; }, [](int k) { return k + 1; });
  if (x % 8 == 4) return x + sum_while(x - 10, [](int k) { return k > 0; }, [](int k) { return k - 10; });
  if (x % 8 == 5) {
    for (size_t k = 0; k < 5; k++) {
      sum = static_cast<int>(static_cast<u32>(sum) * 31 + static_cast<u32>(in[(i + k) % n]));
    }
    return sum;
  }
  return x % 8 == 6 ? in[n - 1 - i] : -1;
}

int sparse_switch(const std::vector<int>& in, size_t i) {
  const std::vector<int> labels{-1000, 0, 17, 100000, 2000000000};
  return 1 + static_cast<int>(std::find(labels.begin(), labels.end(), in[i]) - labels.begin());
}

u32 collatz(const std::vector<u32>& in, size_t i) {
  u32 steps = 0;
  for (uint64_t value = in[i]; value != 1; steps++) value = (value & 1) != 0 ? 3 * value + 1 : value >> 1;
  return steps;
}

int short_circuit(const std::vector<int>& in, size_t i) {
  const int x = in[i];
  const bool inside = x >= 0 && x < n;
  const int there = inside ? in[static_cast<size_t>(x)] : 0;
  return int{inside && there > 0} | int{!inside || there < 10} << 1;
}

int goto_machine(const std::vector<int>& in, size_t i) {
  int x = in[i] & 1023, steps = 1;
  for (; steps <= 100; steps++) {
    if (x % 2 == 0) {
      x /= 2;
      if (x <= 1) break;
    } else {
      x = 3 * x + 1;
      if (x > 3000) break;
    }
  }
  return 1000 * x + steps;
}

int is_prime(const std::vector<u32>& in, size_t i) {
  if (in[i] < 2) return 0;
  for (u32 d = 2; d * d <= in[i]; d++) {
    if (in[i] % d == 0) return 0;
  }
  return 1;
}

u32 predicates(const std::vector<float>& in, size_t i) {
  const float x = in[i];
  const bool a = x > 0, b = x < 10, d = a && b;
  const bool neither = !a && !d;
  return u32{a} | u32{b} << 1 | u32{d} << 3 | u32{neither != b} << 4;
}

/// Pythagorean pairs with the hypotenuse in[i], skipping legs b that 3 divides, and how many pairs were looked at.
void nested_loops(Device& device) {
  const std::vector<int> in = device.integers<int>(n, 0, 40);
  const Array<int> out = device.allocate<int>(2 * n);
  device.launch("nested_loops", {4}, {128}, {device.upload(in), out, n});
  std::vector<int> expected;
  for (const int limit : in) {
    int found = -1, visited = 0;
    for (int a = 1; a < limit && found < 0; a++) {
      for (int b = a; b < limit && found < 0; b++) {
        visited++;
        if (b % 3 != 0 && a * a + b * b > limit * limit) break;
        if (b % 3 != 0 && a * a + b * b == limit * limit) found = 1000 * a + b;
      }
    }
    expected.push_back(found);
    expected.push_back(visited);
  }
  expect_same(device.download(out), expected);
}

void early_return(Device& device) {
  const std::vector<int> in = device.integers<int>(n, -10, 30);
  const Array<int> out = device.allocate<int>(n);
  device.launch("early_return", {4}, {128}, {device.upload(in), out, n});
  std::vector<int> expected;
  for (size_t i = 0; i < n; i++) {
    int sum = 0, result = -1;
    for (size_t k = 0; k < 128 && result < 0 && in[i] >= 0; k++) {
      const size_t at = i / 128 * 128 + k;
      sum += at < n ? in[at] : 0;
      if (sum > 500) result = static_cast<int>(k);
      if (k == 127 && result < 0) result = sum;
    }
    expected.push_back(result);
  }
  expect_same(device.download(out), expected);
}

void barrier_in_loop(Device& device) {
  const int rounds = 6, threads = 96, blocks = 2;
  const std::vector<int> in = device.integers<int>(threads * blocks, 0, 7);
  const Array<int> out = device.allocate<int>(in.size());
  device.launch("barrier_in_loop", {blocks}, {threads}, {device.upload(in), out, rounds});
  std::vector<int> expected;
  for (long block = 0; block < blocks; block++) {
    const auto first = in.begin() + block * threads;
    u32 seen = 0, total = 0;
    for (int round = 0; round < rounds; round++) {
      total += static_cast<u32>(std::count_if(first, first + threads, [&](int x) { return round < x; }));
      seen = 7 * seen + total;
    }
    expected.insert(expected.end(), threads, static_cast<int>(seen));
  }
  expect_same(device.download(out), expected);
}

void binary_search(Device& device) {
  std::vector<int> sorted = device.integers<int>(300, -99, 99);
  std::sort(sorted.begin(), sorted.end());
  const std::vector<int> keys = device.integers<int>(n, -120, 120);
  const Array<int> out = device.allocate<int>(n);
  device.launch("binary_search", {4}, {128}, {device.upload(sorted), 300, device.upload(keys), out, n});
  std::vector<int> expected;
  for (const int key : keys) {
    expected.push_back(static_cast<int>(std::lower_bound(sorted.begin(), sorted.end(), key) - sorted.begin()));
  }
  expect_same(device.download(out), expected);
}

void mandelbrot(Device& device) {
  const int width = 40, height = 24, limit = 60;
  const Array<int> out = device.allocate<int>(width * height);
  device.launch("mandelbrot", {5, 3}, {8, 8}, {out, width, height, limit});
  std::vector<int> expected;
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++) {
      // 3 x / width is contracted: the device adds -2 to a quotient, which is no product.
      const double cr = -2.0 + 3.0 * x / width, ci = -1.0 + 2.0 * y / height;
      double zr = 0, zi = 0;
      int k = 0;
      for (; k < limit && zr * zr + zi * zi <= 4; k++) {
        const double next = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci;
        zr = next;
      }
      expected.push_back(k);
    }
  }
  expect_same(device.download(out), expected);
}

void prime_sieve(Device& device) {
  const int limit = 2000;
  const Array<uint8_t> composite = device.upload(std::vector<uint8_t>(limit + 1, 0));
  device.launch("prime_sieve", {4}, {64}, {composite, limit});
  std::vector<uint8_t> expected(limit + 1);
  for (int x = 4; x <= limit; x++) {
    for (int d = 2; d * d <= x; d++) expected[static_cast<size_t>(x)] |= x % d == 0;
  }
  const std::vector<uint8_t> got = device.download(composite);
  expect_same(got, expected);
  EXPECT_EQ(std::count(got.begin() + 2, got.end(), 0), 303);  // the primes below 2000
}

/// OEIS A000170: 8 queens have 92 arrangements, 7 have 40, 6 have 4.
void n_queens(Device& device) {
  const std::vector<std::pair<int, int>> known{{6, 4}, {7, 40}, {8, 92}};
  for (const auto& [size, solutions] : known) {
    const Array<int> out = device.upload(std::vector<int>{0});
    device.launch("n_queens", {1}, {32}, {out, size});
    expect_same(device.download(out), {solutions});
  }
}

}  // namespace

Cases control_cases() {
  return {
      per_element("dense_switch", -9999, 9999, dense_switch),
      per_element("switch_with_loops", 1, 120, switch_with_loops),
      per_element("sparse_switch", -1, 18, sparse_switch),
      per_element("collatz", 1, 3000, collatz),
      per_element("short_circuit", -100, n + 100, short_circuit),
      per_element("goto_machine", 0, 9999, goto_machine),
      per_element("trial_division", 0, 3000, is_prime),
      per_element("predicates_into_mask", -15, 25, predicates),
      {"control", "nested_loops", nested_loops},
      {"control", "early_return", early_return},
      {"control", "barrier_in_loop", barrier_in_loop},
      {"control", "binary_search", binary_search},
      {"control", "mandelbrot", mandelbrot},
      {"control", "prime_sieve", prime_sieve, 0, false},  // two primes cross out a number of both
      {"control", "n_queens", n_queens},
  };
}

}  // namespace stepfuse::vgpu::corpus
