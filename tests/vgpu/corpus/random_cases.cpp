// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <array>
#include <cmath>
#include <random>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;
using u32 = uint32_t;
using u64 = uint64_t;

constexpr int n = 200;

/// The known answers of philox4x32-10 that Random123 publishes (kat_vectors): zeros, ones, and the digits of pi.
void philox(Device& device) {
  const std::vector<u32> counters{0, 0, 0, 0, ~0u, ~0u, ~0u, ~0u, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
  const std::vector<u32> keys{0, 0, ~0u, ~0u, 0xa4093822, 0x299f31d0};
  const Array<u32> out = device.allocate<u32>(12);
  device.launch("philox", {1}, {32}, {device.upload(counters), device.upload(keys), out, 3});
  expect_same(device.download(out), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
                                     0x6d5451fd, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

/// Marsaglia, "Xorshift RNGs" (2003): started at 2463534242, the triple 13, 17, 5 gives 723471715 first.
void xorshift32(Device& device) {
  const std::vector<u32> seeds = [&] {
    std::vector<u32> values = device.integers<u32>(n, 1, 0xFFFFFFFF);
    values[0] = 2463534242u;
    return values;
  }();
  for (const int steps : {1, 17}) {
    const Array<u32> states = device.upload(seeds);
    device.launch("xorshift32", {2}, {128}, {states, steps, n});
    std::vector<u32> expected;
    for (u32 x : seeds) {
      for (int k = 0; k < steps; k++) x ^= x << 13, x ^= x >> 17, x ^= x << 5;
      expected.push_back(x);
    }
    const std::vector<u32> got = device.download(states);
    expect_same(got, expected);
    if (steps == 1) {
      EXPECT_EQ(got[0], 723471715u);
    }
  }
}

void xorshift128plus(Device& device) {
  std::vector<u64> seeds(2 * n), states, results;
  for (u64& seed : seeds) seed = device.random()();
  const int steps = 9;
  const Array<u64> array = device.upload(seeds), out = device.allocate<u64>(n);
  device.launch("xorshift128plus", {2}, {128}, {array, out, steps, n});
  for (size_t i = 0; i < n; i++) {
    std::array<u64, 2> s{seeds[2 * i], seeds[2 * i + 1]};
    u64 result = 0;
    for (int k = 0; k < steps; k++) {
      result = s[0] + s[1];
      u64 x = s[0];
      x ^= x << 23;
      s = {s[1], x ^ s[1] ^ x >> 18 ^ s[1] >> 5};
    }
    states.insert(states.end(), s.begin(), s.end());
    results.push_back(result);
  }
  expect_same(device.download(array), states);
  expect_same(device.download(out), results);
}

/// The standard library's minstd_rand is this generator: its 10000th number from 1 is 399268537 ([rand.predef]).
void lehmer(Device& device) {
  const std::vector<u32> seeds = device.integers<u32>(n, 1, 2147483646);
  const Array<u32> out = device.allocate<u32>(n);
  device.launch("lehmer", {2}, {128}, {device.upload(seeds), out, 50, n});
  std::vector<u32> expected;
  for (const u32 seed : seeds) {
    std::minstd_rand generator(seed);
    generator.discard(49);
    expected.push_back(static_cast<u32>(generator()));
  }
  expect_same(device.download(out), expected);
  const Array<u32> known = device.allocate<u32>(1);
  device.launch("lehmer", {1}, {1}, {device.upload(std::vector<u32>{1}), known, 10000, 1});
  expect_same(device.download(known), {399268537u});
}

void lcg_jump(Device& device) {
  const std::vector<u64> steps = device.integers<u64>(n, 0, 5000);
  const Array<u64> out = device.allocate<u64>(n);
  const u64 seed = device.random()();
  device.launch("lcg_jump", {2}, {128}, {device.upload(steps), out, seed, n});
  std::vector<u64> expected;
  for (const u64 count : steps) {
    u64 x = seed;
    for (u64 k = 0; k < count; k++) x = x * 6364136223846793005u + 1442695040888963407u;
    expected.push_back(x);
  }
  expect_same(device.download(out), expected);
}

/// The first numbers of the reference program pcg32-demo, seed 42 and stream 54.
void pcg32(Device& device) {
  const Array<u32> out = device.allocate<u32>(6);
  device.launch("pcg32", {1}, {1}, {device.upload(std::vector<u64>{42}), device.upload(std::vector<u64>{54}), out, 6});
  expect_same(device.download(out), {0xa15c02b7, 0x7b47f409, 0xba1d3330, 0x83d2f293, 0xbfa4784b, 0xcbed606e});
}

/// Against the standard library's, whose 10000th number from 5489 is 4123659995 ([rand.predef]).
void mersenne_twister(Device& device) {
  const int draws = 1300;
  const std::vector<u32> seeds{5489, static_cast<u32>(device.random()())};
  const Array<u32> out = device.allocate<u32>(2 * draws);
  device.launch("mersenne_twister", {2}, {256}, {device.upload(seeds), out, draws});
  std::vector<u32> expected;
  for (const u32 seed : seeds) {
    std::mt19937 generator(seed);
    for (int k = 0; k < draws; k++) expected.push_back(static_cast<u32>(generator()));
  }
  expect_same(device.download(out), expected);
}

void monte_carlo_pi(Device& device) {
  const int threads = 256, draws = 60;
  const u64 seed = device.random()();
  const Array<u32> inside = device.upload(std::vector<u32>{0});
  device.launch("monte_carlo_pi", {2}, {threads / 2}, {seed, inside, draws});
  u32 expected = 0;
  for (u64 thread = 0; thread < threads; thread++) {
    u64 state = seed + thread * 0x9E3779B97F4A7C15u;
    const auto draw = [&] { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 48; };
    for (int k = 0; k < draws; k++) {
      const u64 x = draw(), y = draw();
      expected += x * x + y * y < u64{1} << 32;
    }
  }
  expect_same(device.download(inside), {expected});
  EXPECT_NEAR(4.0 * expected / (threads * draws), 3.14159, 0.1);
}

void box_muller(Device& device) {
  const std::vector<float> uniform = device.reals<float>(2 * n, 1e-6, 1);
  const Array<float> normal = device.allocate<float>(2 * n);
  device.launch("box_muller", {2}, {128}, {device.upload(uniform), normal, n});
  std::vector<double> expected;
  for (size_t i = 0; i < n; i++) {
    const double radius = std::sqrt(-2 * std::log(static_cast<double>(uniform[2 * i])));
    const double angle = 2 * M_PI * static_cast<double>(uniform[2 * i + 1]);
    expected.push_back(radius * std::cos(angle));
    expected.push_back(radius * std::sin(angle));
  }
  expect_near(device.download(normal), expected, 1e-6, 1e-6);
}

}  // namespace

Cases random_cases() {
  const std::vector<std::pair<std::string, void (*)(Device&)>> programs{
      {"philox", philox},
      {"xorshift32", xorshift32},
      {"xorshift128plus", xorshift128plus},
      {"lehmer", lehmer},
      {"lcg_jump", lcg_jump},
      {"pcg32", pcg32},
      {"mersenne_twister", mersenne_twister},
      {"monte_carlo_pi", monte_carlo_pi},
      {"box_muller", box_muller},
  };
  Cases all;
  for (const auto& [kernel, run] : programs) all.push_back({"random", kernel, run});
  return all;
}

}  // namespace stepfuse::vgpu::corpus
