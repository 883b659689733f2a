// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/narrow_cases.h"

#include <bit>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;

template <class Out, class... In>
Case row(const std::string& kernel, Out (*reference)(In...), Lanes lanes = Lanes::One, int min_capability = 0) {
  return narrow_map("bfloat", kernel, reference, lanes, min_capability);
}

template <Rounding mode>
Bfloat narrowed(float x) {
  return Bfloat::of(static_cast<double>(x), mode);
}

Bfloat sum(Bfloat x, Bfloat y) { return rounded_sum<Bfloat>(x.value(), y.value()); }
Bfloat product(Bfloat x, Bfloat y) { return Bfloat::of(x.value() * y.value()); }
Bfloat fused(Bfloat x, Bfloat y, Bfloat z) { return rounded_sum<Bfloat>(x.value() * y.value(), z.value()); }
Bfloat flipped(Bfloat x) { return {static_cast<uint16_t>(x.bits ^ 0x8000)}; }

Bfloat larger(Bfloat x, Bfloat y) {
  if (x.is_nan()) return y;
  if (y.is_nan()) return x;
  if (x.value() == y.value()) return std::signbit(x.value()) ? y : x;
  return x.value() > y.value() ? x : y;
}

int comparisons(Bfloat a, Bfloat b) {
  const double x = a.value(), y = b.value();
  return int{x == y} | int{x < y || x > y} << 1 | int{x < y} << 2 | int{x <= y} << 3 | int{x > y} << 4 |
         int{x >= y} << 5;
}

Cases tables() {
  return {
      row(
          "to_float", +[](Bfloat x) { return static_cast<float>(x.value()); }),
      row(
          "to_float2", +[](Bfloat x) { return static_cast<float>(x.value()); }, Lanes::Two),
      row("from_float", narrowed<Rounding::Nearest>),
      row("from_float2", narrowed<Rounding::Nearest>, Lanes::Two),
      row("from_float_rz", narrowed<Rounding::Zero>),
      row("from_float_ru", narrowed<Rounding::Up>),
      row("from_float_rd", narrowed<Rounding::Down>),
      row("round_by_hand", narrowed<Rounding::Nearest>),
      row(
          "bits_of", +[](Bfloat x) { return static_cast<int16_t>(x.bits); }),
      row("add", sum),
      row(
          "subtract", +[](Bfloat x, Bfloat y) { return sum(x, flipped(y)); }),
      row("multiply", product),
      row("negate", flipped),
      row(
          "absolute", +[](Bfloat x) { return Bfloat{static_cast<uint16_t>(x.bits & 0x7FFF)}; }),
      row("compare", comparisons),
      row("add_packed", sum, Lanes::Two),
      row("fused", fused, Lanes::One, 80),
      row("fused_packed", fused, Lanes::Two, 80),
      row("maximum", larger, Lanes::One, 80),
      row(
          "minimum", +[](Bfloat x, Bfloat y) { return flipped(larger(flipped(x), flipped(y))); }, Lanes::One, 80),
  };
}

/// Truncated or one more, more often the more is cut off: exactly where the random number says.
void stochastic_rounding(Device& device) {
  const int n = 700;
  const std::vector<float> a = device.reals<float>(n, -9, 9);
  const std::vector<uint16_t> random = device.integers<uint16_t>(n, 0, 65535);
  const Array<uint16_t> out = device.allocate<uint16_t>(n);
  device.launch("stochastic_rounding", {6}, {128}, {device.upload(a), device.upload(random), out, n});
  std::vector<uint16_t> expected;
  for (size_t i = 0; i < n; i++) {
    const Bfloat low = Bfloat::of(static_cast<double>(a[i]), Rounding::Zero);
    const uint32_t rest = std::bit_cast<uint32_t>(a[i]) & 0xFFFF;
    expected.push_back(static_cast<uint16_t>(low.bits + (rest + random[i] >= 65536 ? 1 : 0)));
  }
  expect_same(device.download(out), expected);
}

void atomic_bfloat2(Device& device) {
  std::vector<Bfloat> in(128);
  double expected[2] = {0, 0};
  for (size_t i = 0; i < in.size(); i++) {
    in[i] = Bfloat::of(static_cast<double>(device.integer(-2, 2)));  // sums below 256 are exact
    expected[i % 2] += in[i].value();
  }
  const Array<Bfloat> out = device.upload(std::vector<Bfloat>(2));
  device.launch("atomic_bfloat2", {2}, {32}, {device.upload(in), out});
  const std::vector<Bfloat> got = device.download(out);
  EXPECT_EQ(got[0].value(), expected[0]);
  EXPECT_EQ(got[1].value(), expected[1]);
}

void adamw_bfloat(Device& device) {
  const int n = 300;
  std::vector<Bfloat> p(n), g(n);
  for (size_t i = 0; i < n; i++) p[i] = Bfloat::of(device.real(-1, 1)), g[i] = Bfloat::of(device.real(-1, 1));
  const std::vector<float> m = device.reals<float>(n, -1, 1), v = device.reals<float>(n, 0.1, 1);
  const Array<Bfloat> new_p = device.upload(p);
  const Array<float> new_m = device.upload(m), new_v = device.upload(v);
  device.launch("adamw_bfloat", {3}, {128}, {new_p, device.upload(g), new_m, new_v, 0.01f, 0.9f, 0.99f, 1e-8f, n});
  std::vector<double> expected_m, expected_v;
  const std::vector<Bfloat> got = device.download(new_p);
  for (size_t i = 0; i < n; i++) {
    expected_m.push_back(0.9 * static_cast<double>(m[i]) + 0.1 * g[i].value());
    expected_v.push_back(0.99 * static_cast<double>(v[i]) + 0.01 * g[i].value() * g[i].value());
    const double exact = p[i].value() - 0.01 * expected_m[i] / (std::sqrt(expected_v[i]) + 1e-8);
    // Half a unit of bfloat16, and the little that float adds before.
    ASSERT_NEAR(got[i].value(), exact, std::ldexp(0.501, std::ilogb(exact) - 7) + 1e-7);
  }
  expect_near(device.download(new_m), expected_m, 1e-6, 1e-6);
  expect_near(device.download(new_v), expected_v, 1e-6, 1e-6);
}

}  // namespace

Cases bfloat_cases() {
  Cases all = tables();
  all.push_back({"bfloat", "stochastic_rounding", stochastic_rounding});
  // Below compute_90 a loop that reads with a plain load what others change by compare-and-swap.
  all.push_back({"bfloat", "atomic_bfloat2", atomic_bfloat2, 0, false});
  all.push_back({"bfloat", "adamw_bfloat", adamw_bfloat});
  return all;
}

}  // namespace stepfuse::vgpu::corpus
