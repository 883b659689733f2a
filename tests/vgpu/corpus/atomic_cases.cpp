// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;
using u32 = uint32_t;
using u64 = uint64_t;

constexpr size_t blocks = 5, threads = 96, size = blocks * threads;

/// kernel(in, out, bins): in[i] goes to out[i % bins], all exact in any order.
template <class T>
Case binned(const std::string& kernel, int sign) {
  return {"atomics", kernel, [=](Device& device) {
            const int bins = 7;
            const std::vector<T> in = device.integers<T>(size, std::is_unsigned_v<T> ? 0 : -9999, 9999);
            const Array<T> out = device.upload(std::vector<T>(bins, 3));
            device.launch(kernel, {blocks}, {threads}, {device.upload(in), out, bins});
            std::vector<T> expected(bins, 3);
            for (size_t i = 0; i < size; i++) expected[i % bins] += sign < 0 ? T(0) - in[i] : in[i];
            expect_same(device.download(out), expected);
          }};
}

/// kernel(in, out): the smallest and the largest.
template <class T>
Case extremes(const std::string& kernel) {
  return {"atomics", kernel, [=](Device& device) {
            const std::vector<T> in = edge_values<T>(device, 0, size);
            const Array<T> out = device.upload(std::vector<T>{T(7), T(7)});
            device.launch(kernel, {blocks}, {threads}, {device.upload(in), out});
            const auto [least, most] = std::minmax_element(in.begin(), in.end());
            expect_same(device.download(out), {std::min(*least, T(7)), std::max(*most, T(7))});
          }};
}

template <class T>
Case logic(const std::string& kernel, T and_mask, T or_mask) {
  return {"atomics", kernel, [=](Device& device) {
            const std::vector<T> in = edge_values<T>(device, 0, size);
            const Array<T> out = device.upload(std::vector<T>{static_cast<T>(~T(0)), T(1), T(5)});
            device.launch(kernel, {blocks}, {threads}, {device.upload(in), out});
            std::vector<T> expected{static_cast<T>(~T(0)), T(1), T(5)};
            for (const T value : in) {
              expected[0] &= value | and_mask;
              expected[1] |= value & or_mask;
              expected[2] ^= value;
            }
            expect_same(device.download(out), expected);
          }};
}

/// What came out, with what is still inside, is what went in.
template <class T>
void exchanged(Device& device, const char* kernel, T step) {
  const Array<T> slot = device.upload(std::vector<T>{0}), old = device.allocate<T>(size);
  device.launch(kernel, {blocks}, {threads}, {slot, old});
  std::vector<T> got = device.download(old), expected(size + 1);
  got.push_back(device.download(slot)[0]);
  std::sort(got.begin(), got.end());
  for (size_t i = 0; i <= size; i++) expected[i] = static_cast<T>(i) * step;
  expect_same(got, expected);
}

/// Both count through 0..limit in a circle.
void circular(Device& device, const char* kernel, bool up) {
  const u32 limit = 99;
  const Array<u32> counter = device.upload(std::vector<u32>{0}), old = device.allocate<u32>(size);
  device.launch(kernel, {blocks}, {threads}, {counter, old, limit});
  std::vector<u32> got = device.download(old), expected;
  u32 now = 0;
  for (size_t i = 0; i < size; i++) {
    expected.push_back(now);
    now = up ? (now >= limit ? 0 : now + 1) : (now == 0 ? limit : now - 1);
  }
  std::sort(got.begin(), got.end());
  std::sort(expected.begin(), expected.end());
  expect_same(got, expected);
  expect_same(device.download(counter), {now});
}

/// The old values are the running sums in some order: sorted ones are so far apart as some input.
void add_float_returned(Device& device) {
  const std::vector<float> in = device.integers<float>(size, 1, 99);
  const Array<float> out = device.upload(std::vector<float>{0}), old = device.allocate<float>(size);
  device.launch("add_float_returned", {blocks}, {threads}, {device.upload(in), out, old});
  std::vector<float> got = device.download(old), steps, expected = in;
  got.push_back(device.download(out)[0]);
  std::sort(got.begin(), got.end());
  for (size_t i = 0; i < size; i++) steps.push_back(got[i + 1] - got[i]);
  std::sort(steps.begin(), steps.end());
  std::sort(expected.begin(), expected.end());
  expect_same(steps, expected);
}

void compare_and_swap_max(Device& device) {
  const std::vector<float> in = device.reals<float>(size, 0, 1000);
  const Array<u32> out = device.upload(std::vector<u32>{0});
  device.launch("compare_and_swap_max", {blocks}, {threads}, {device.upload(in), out});
  expect_same(device.download(out), {std::bit_cast<u32>(*std::max_element(in.begin(), in.end()))});
}

/// Powers of two multiply without rounding.
void compare_and_swap_product(Device& device) {
  std::vector<double> in(size);
  double expected = 1;
  for (double& value : in) expected *= value = std::ldexp(1.0, static_cast<int>(device.integer(-1, 1)));
  const Array<u64> out = device.upload(std::vector<u64>{std::bit_cast<u64>(1.0)});
  device.launch("compare_and_swap_product", {blocks}, {threads}, {device.upload(in), out});
  expect_same(device.download(out), {std::bit_cast<u64>(expected)});
}

void compare_and_swap_u16(Device& device) {
  const int slots = 37;
  const Array<uint16_t> claims = device.upload(std::vector<uint16_t>(slots, 0xFFFF));
  const Array<int> winners = device.upload(std::vector<int>{0});
  device.launch("compare_and_swap_u16", {blocks}, {threads}, {claims, winners, slots});
  expect_same(device.download(winners), {slots});
  const std::vector<uint16_t> got = device.download(claims);
  for (size_t i = 0; i < slots; i++) {
    EXPECT_LT(got[i], size);
    EXPECT_EQ(got[i] % slots, i);
  }
}

void spin_lock(Device& device) {
  const int count = 12;
  const std::vector<int> in = device.integers<int>(count, -99, 99);
  const Array<int> lock = device.upload(std::vector<int>{0}), sum = device.upload(std::vector<int>{0}),
                   times = device.upload(std::vector<int>{0});
  device.launch("spin_lock", {count}, {32}, {lock, sum, times, device.upload(in)});
  expect_same(device.download(sum), {std::accumulate(in.begin(), in.end(), 0)});
  expect_same(device.download(times), {count});
}

void shared_atomics(Device& device) {
  const std::vector<int> in = device.integers<int>(size, -999, 999);
  const Array<int> out = device.allocate<int>(6 * blocks);
  device.launch("shared_atomics", {blocks}, {threads}, {device.upload(in), out});
  std::vector<int> expected;
  for (auto first = in.begin(); first != in.end(); first += threads) {
    const int sum = std::accumulate(first, first + threads, 0);
    const auto [least, most] = std::minmax_element(first, first + threads);
    u32 bits = 0;
    std::for_each(first, first + threads, [&](int x) { bits |= 1u << (x & 31); });
    expected.insert(expected.end(), {sum, *least, *most, static_cast<int>(bits), sum, sum});
  }
  expect_same(device.download(out), expected);
}

void scoped_atomics(Device& device) {
  const Array<int> out = device.upload(std::vector<int>(2 * blocks + 1, 0));
  device.launch("scoped_atomics", {blocks}, {threads}, {out});
  std::vector<int> expected(2 * blocks + 1, threads);
  expected[blocks] = 2 * size;
  std::fill(expected.begin() + blocks + 1, expected.end(), threads - 1);
  expect_same(device.download(out), expected);
}

void ordered_atomics(Device& device) {
  const Array<int> out = device.allocate<int>(threads), flag = device.upload(std::vector<int>{0}),
                   seen = device.allocate<int>((blocks - 1) * threads);
  device.launch("ordered_atomics", {blocks}, {threads}, {out, flag, seen}, 0, true);
  std::vector<int> expected;
  for (size_t i = 0; i < (blocks - 1) * threads; i++) expected.push_back(static_cast<int>(100 + i % threads));
  expect_same(device.download(seen), expected);
}

void append(Device& device) {
  const int n = 450;
  const std::vector<int> in = device.integers<int>(n, -99, 99);
  const Array<int> out = device.allocate<int>(n), count = device.upload(std::vector<int>{0});
  device.launch("append", {blocks}, {threads}, {device.upload(in), out, count, n});
  std::vector<int> expected, got = device.download(out);
  std::copy_if(in.begin(), in.end(), std::back_inserter(expected), [](int x) { return x % 2 == 0; });
  expect_same(device.download(count), {static_cast<int>(expected.size())});
  got.resize(expected.size());
  std::sort(got.begin(), got.end());
  std::sort(expected.begin(), expected.end());
  expect_same(got, expected);
}

Cases tables() {
  return {
      binned<int>("add_int", 1),
      binned<u64>("add_u64", 1),
      binned<float>("add_float", 1),
      binned<double>("add_double", 1),
      binned<int>("sub_int", -1),
      extremes<int>("min_max_int"),
      extremes<u32>("min_max_u32"),
      extremes<int64_t>("min_max_s64"),
      extremes<u64>("min_max_u64"),
      logic<u32>("logic_u32", 0xFF00FF00u, 0x00F00F00u),
      logic<u64>("logic_u64", 0xFF00FF00FF00FF00u, 0x00F00F00F00F0000u),
      {"atomics", "exchange", [](Device& device) { exchanged<int>(device, "exchange", 1); }},
      {"atomics", "exchange_u64", [](Device& device) { exchanged<u64>(device, "exchange_u64", u64{1} << 32); }},
      {"atomics", "increment", [](Device& device) { circular(device, "increment", true); }},
      {"atomics", "decrement", [](Device& device) { circular(device, "decrement", false); }},
  };
}

}  // namespace

Cases atomic_cases() {
  Cases all = tables();
  for (Case& more : Cases{
           {"atomics", "add_float_returned", add_float_returned},
           // Both read with a plain load what others change by atomics, and check it with the swap.
           {"atomics", "compare_and_swap_max", compare_and_swap_max, 0, false},
           {"atomics", "compare_and_swap_product", compare_and_swap_product, 0, false},
           {"atomics", "compare_and_swap_u16", compare_and_swap_u16},
           {"atomics", "spin_lock", spin_lock},
           {"atomics", "shared_atomics", shared_atomics},
           {"atomics", "scoped_atomics", scoped_atomics},
           {"atomics", "ordered_atomics", ordered_atomics},
           {"atomics", "append", append},
       }) {
    all.push_back(more);
  }
  return all;
}

}  // namespace stepfuse::vgpu::corpus
