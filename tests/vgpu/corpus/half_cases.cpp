// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/narrow_cases.h"

#include <algorithm>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;

template <class Out, class... In>
Case row(const std::string& kernel, Out (*reference)(In...), Lanes lanes = Lanes::One, int min_capability = 0) {
  return narrow_map("half", kernel, reference, lanes, min_capability);
}

template <Rounding mode>
Half narrowed(float x) {
  return Half::of(static_cast<double>(x), mode);
}

Half sum(Half x, Half y) { return rounded_sum<Half>(x.value(), y.value()); }
Half product(Half x, Half y) { return Half::of(x.value() * y.value()); }
Half fused(Half x, Half y, Half z) { return rounded_sum<Half>(x.value() * y.value(), z.value()); }

/// .sat: into 0..1, NaN to zero (PTX ISA, fma.sat.f16).
Half saturated(Half x) { return x.value() > 0 ? Half::of(std::min(x.value(), 1.0)) : Half{0}; }

template <class Int>
Int whole(Half x, double value) {
  if (x.is_nan()) return 0;
  return static_cast<Int>(std::clamp(value, static_cast<double>(std::numeric_limits<Int>::min()),
                                     static_cast<double>(std::numeric_limits<Int>::max())));
}

Cases conversions() {
  return {
      row(
          "to_float", +[](Half x) { return static_cast<float>(x.value()); }),
      row(
          "to_float2", +[](Half x) { return static_cast<float>(x.value()); }, Lanes::Two),
      row("from_float", narrowed<Rounding::Nearest>),
      row("from_float2", narrowed<Rounding::Nearest>, Lanes::Two),
      row("from_float_rz", narrowed<Rounding::Zero>),
      row("from_float_ru", narrowed<Rounding::Up>),
      row("from_float_rd", narrowed<Rounding::Down>),
      row(
          "from_double", +[](double x) { return Half::of(x); }),
      row(
          "from_int", +[](int x) { return Half::of(x); }),
      row(
          "to_int_rz", +[](Half x) { return whole<int>(x, std::trunc(x.value())); }),
      row(
          "to_int_rn", +[](Half x) { return whole<int>(x, std::nearbyint(x.value())); }),
      row(
          "to_short", +[](Half x) { return whole<int16_t>(x, std::nearbyint(x.value())); }),
      row(
          "bits_of", +[](Half x) { return static_cast<int16_t>(x.bits); }),
  };
}

int comparisons(Half a, Half b) {
  const double x = a.value(), y = b.value();
  // __hne is an ordered comparison, unlike the language's !=.
  return int{x == y} | int{x < y || x > y} << 1 | int{x < y} << 2 | int{x <= y} << 3 | int{x > y} << 4 |
         int{x >= y} << 5;
}

int unordered_comparisons(Half a, Half b) {
  const double x = a.value(), y = b.value();
  return int{!(x < y || x > y)} | int{!(x >= y)} << 1 | int{!(x < y)} << 2 | int{!(x == y)} << 3;
}

Half larger(Half x, Half y) {
  if (x.is_nan()) return y;
  if (y.is_nan()) return x;
  if (x.value() == y.value()) return std::signbit(x.value()) ? y : x;
  return x.value() > y.value() ? x : y;
}

Half flipped(Half x) { return {static_cast<uint16_t>(x.bits ^ 0x8000)}; }

Cases arithmetic() {
  return {
      row("add", sum),
      row(
          "subtract", +[](Half x, Half y) { return rounded_sum<Half>(x.value(), -y.value()); }),
      row("multiply", product),
      row("fused", fused),
      row(
          "fused_saturated", +[](Half x, Half y, Half z) { return saturated(fused(x, y, z)); }),
      row(
          "add_saturated", +[](Half x, Half y) { return saturated(sum(x, y)); }),
      row("negate", flipped),
      row(
          "absolute", +[](Half x) { return Half{static_cast<uint16_t>(x.bits & 0x7FFF)}; }),
      row("compare", comparisons),
      row("compare_unordered", unordered_comparisons),
      row(
          "floor_half", +[](Half x) { return Half::of(std::floor(x.value())); }),
      row(
          "round_half", +[](Half x) { return Half::of(std::nearbyint(x.value())); }),
      row("maximum", larger, Lanes::One, 80),
      row(
          "minimum", +[](Half x, Half y) { return flipped(larger(flipped(x), flipped(y))); }, Lanes::One, 80),
      row(
          "maximum_nan", +[](Half x, Half y) { return x.is_nan() || y.is_nan() ? Half{0x7FFF} : larger(x, y); },
          Lanes::One, 80),
      row(
          "fused_relu",
          +[](Half x, Half y, Half z) {
            const Half result = fused(x, y, z);
            return result.is_nan() || result.value() > 0 ? result : Half{0};
          },
          Lanes::One, 80),
      row("add_packed", sum, Lanes::Two),
      row("multiply_packed", product, Lanes::Two),
      row("fused_packed", fused, Lanes::Two),
      row(
          "compare_packed", +[](Half x, Half y) { return static_cast<uint16_t>(x.value() < y.value() ? 0xFFFF : 0); },
          Lanes::Two),
  };
}

/// Within `bound` units of the last place of half.
Case near(const std::string& kernel, double (*reference)(double), double low, double high, double bound) {
  return {"half", kernel, [=](Device& device) {
            const size_t size = 600;
            std::vector<Half> in(size);
            for (Half& x : in) x = Half::of(device.real(low, high));
            const Array<Half> out = device.allocate<Half>(size);
            device.launch(kernel, blocks_for(size), {map_block}, {device.upload(in), out, static_cast<int>(size)});
            const std::vector<Half> got = device.download(out);
            for (size_t i = 0; i < size; i++) {
              const double exact = reference(in[i].value());
              ASSERT_NEAR(got[i].value(), exact, std::ldexp(bound, std::max(std::ilogb(exact), -14) - 10))
                  << in[i].value();
            }
          }};
}

void divide(Device& device) {
  const size_t size = 600;
  std::vector<Half> a(size), b(size);
  for (size_t i = 0; i < size; i++) {
    a[i] = Half::of(device.real(-8, 8));
    b[i] = Half::of(device.real(0.5, 4) * (i % 2 == 0 ? 1 : -1));
  }
  const Array<Half> out = device.allocate<Half>(size);
  device.launch("divide", blocks_for(size), {map_block},
                {device.upload(a), device.upload(b), out, static_cast<int>(size)});
  const std::vector<Half> got = device.download(out);
  for (size_t i = 0; i < size; i++) {
    const double exact = a[i].value() / b[i].value();
    ASSERT_NEAR(got[i].value(), exact, std::ldexp(1.0, std::max(std::ilogb(exact), -14) - 10));
  }
}

constexpr size_t pairs = 256;

std::vector<Half> whole_halves(Device& device, size_t size, int limit) {
  std::vector<Half> values(size);
  for (Half& value : values) value = Half::of(static_cast<double>(device.integer(-limit, limit)));
  return values;
}

void expect_halves(const std::vector<Half>& got, const std::vector<Half>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); i++) ASSERT_EQ(got[i].value(), expected[i].value()) << i;
}

void swap_packed(Device& device) {
  const std::vector<Half> in = whole_halves(device, 2 * pairs, 99);
  const Array<Half> out = device.allocate<Half>(2 * pairs);
  device.launch("swap_packed", {2}, {128}, {device.upload(in), out, static_cast<int>(pairs)});
  std::vector<Half> expected;
  for (size_t i = 0; i < 2 * pairs; i++) expected.push_back(in[i ^ 1]);
  expect_halves(device.download(out), expected);
}

void pick_packed(Device& device) {
  const std::vector<Half> a = whole_halves(device, 2 * pairs, 99), b = whole_halves(device, 2 * pairs, 99);
  const Array<Half> out = device.allocate<Half>(2 * pairs);
  device.launch("pick_packed", {2}, {128}, {device.upload(a), device.upload(b), out, static_cast<int>(pairs)});
  std::vector<Half> expected;
  for (size_t i = 0; i < 2 * pairs; i++) expected.push_back(i % 2 == 0 ? a[i + 1] : b[i - 1]);
  expect_halves(device.download(out), expected);
}

void axpy(Device& device) {
  const std::vector<Half> x = whole_halves(device, 2 * pairs, 20), y = whole_halves(device, 2 * pairs, 99);
  const Half a = Half::of(1.5);
  const Array<Half> out = device.upload(y);
  device.launch("axpy", {2}, {128}, {a, device.upload(x), out, static_cast<int>(pairs)});
  std::vector<Half> expected;
  for (size_t i = 0; i < 2 * pairs; i++) expected.push_back(fused(a, x[i], y[i]));
  expect_halves(device.download(out), expected);
}

void dot(Device& device) {
  const std::vector<Half> a = whole_halves(device, 8 * 50, 99), b = whole_halves(device, 8 * 50, 99);
  const Array<float> out = device.allocate<float>(1);
  device.launch("dot", {1}, {32}, {device.upload(a), device.upload(b), out, 50});
  float expected = 0;
  for (size_t i = 0; i < a.size(); i++) expected += static_cast<float>(a[i].value() * b[i].value());
  expect_same(device.download(out), {expected});
}

void shuffle_half(Device& device) {
  const std::vector<Half> in = whole_halves(device, 128, 99);
  const Array<Half> out = device.allocate<Half>(256);
  device.launch("shuffle_half", {1}, {128}, {device.upload(in), out});
  std::vector<Half> expected;
  for (size_t i = 0; i < 128; i++) {
    const size_t from = i % 32 < 30 ? i + 2 : i;
    expected.push_back(in[from]);
    expected.push_back(in[from ^ 1]);
  }
  expect_halves(device.download(out), expected);
}

void atomic_half2(Device& device) {
  const std::vector<Half> in = whole_halves(device, 2 * 128, 7);
  const Array<Half> out = device.upload(whole_halves(device, 2, 0));
  device.launch("atomic_half2", {2}, {64}, {device.upload(in), out});
  double expected[2] = {0, 0};
  for (size_t i = 0; i < in.size(); i++) expected[i % 2] += in[i].value();
  expect_halves(device.download(out), {Half::of(expected[0]), Half::of(expected[1])});
}

void atomic_half(Device& device) {
  const std::vector<Half> in = whole_halves(device, 128, 7);
  const Array<Half> out = device.upload(whole_halves(device, 4, 0));
  device.launch("atomic_half", {2}, {64}, {device.upload(in), out});
  double expected[3] = {0, 0, 0};
  for (size_t i = 0; i < in.size(); i++) expected[i % 3] += in[i].value();
  expect_halves(device.download(out), {Half::of(expected[0]), Half::of(expected[1]), Half::of(expected[2]), Half{0}});
}

void mixed_precision_step(Device& device) {
  const int n = 300;
  const std::vector<float> master = device.reals<float>(n, -1, 1);
  const std::vector<Half> gradient = whole_halves(device, n, 2000);
  const Array<float> new_master = device.upload(master);
  const Array<Half> model = device.allocate<Half>(n);
  device.launch("mixed_precision_step", {3}, {128}, {new_master, model, device.upload(gradient), 0.01f, 1024.0f, n});
  std::vector<float> expected;
  std::vector<Half> expected_model;
  for (size_t i = 0; i < n; i++) {
    expected.push_back(std::fma(-0.01f, static_cast<float>(gradient[i].value()) / 1024, master[i]));
    expected_model.push_back(Half::of(static_cast<double>(expected.back())));
  }
  expect_same(device.download(new_master), expected);
  expect_halves(device.download(model), expected_model);
}

}  // namespace

Cases half_cases() {
  Cases all = conversions();
  const Cases more = arithmetic();
  all.insert(all.end(), more.begin(), more.end());
  all.push_back(near("square_root", std::sqrt, 0.001, 1000, 1));
  all.push_back(near("exponential", std::exp, -8, 8, 1));
  // The header corrects, for some inputs, what the hardware's lg2.approx gets wrong; where that is exact, the
  // correction is one unit too much.
  all.push_back(near("logarithm", std::log, 0.01, 100, 2));
  const std::vector<std::pair<std::string, void (*)(Device&)>> programs{
      {"divide", divide},
      {"swap_packed", swap_packed},
      {"pick_packed", pick_packed},
      {"axpy", axpy},
      {"dot", dot},
      {"shuffle_half", shuffle_half},
      {"atomic_half2", atomic_half2},
      {"atomic_half", atomic_half},
      {"mixed_precision_step", mixed_precision_step},
  };
  for (const auto& [kernel, run] : programs) all.push_back({"half", kernel, run});
  return all;
}

}  // namespace stepfuse::vgpu::corpus
