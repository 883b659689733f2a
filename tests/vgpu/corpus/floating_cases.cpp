// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <cmath>

namespace stepfuse::vgpu::corpus {
namespace {

template <class Out, class... In>
Case row(const std::string& kernel, Out (*reference)(In...)) {
  return map("floating", kernel, reference);
}

template <class T>
int comparisons(T x, T y) {
  return (x < y) | (x <= y) << 1 | (x > y) << 2 | (x >= y) << 3 | (x == y) << 4 | (x != y) << 5;
}

template <class T>
int classes(T x) {
  return std::isnan(x) | std::isinf(x) << 1 | std::isfinite(x) << 2 | std::signbit(x) << 3;
}

/// IEEE 754-2019's minimumNumber: a NaN only if both are, and -0 below +0, as PTX 9.7.3 says of min.
template <class T>
T smaller(T x, T y) {
  if (std::isnan(x)) return y;
  if (std::isnan(y)) return x;
  if (x == y) return std::signbit(x) ? x : y;
  return x < y ? x : y;
}

template <class T>
T larger(T x, T y) {
  if (std::isnan(x)) return y;
  if (std::isnan(y)) return x;
  if (x == y) return std::signbit(x) ? y : x;
  return x > y ? x : y;
}

Cases arithmetic() {
  return {
      row(
          "add_f32", +[](float x, float y) { return x + y; }),
      row(
          "sub_f64", +[](double x, double y) { return x - y; }),
      row(
          "mul_f32", +[](float x, float y) { return x * y; }),
      row(
          "mul_f64", +[](double x, double y) { return x * y; }),
      row(
          "div_f32", +[](float x, float y) { return x / y; }),
      row(
          "div_f64", +[](double x, double y) { return x / y; }),
      row(
          "sqrt_f32", +[](float x) { return std::sqrt(x); }),
      row(
          "sqrt_f64", +[](double x) { return std::sqrt(x); }),
      row(
          "reciprocal_f32", +[](float x) { return 1.0f / x; }),
      row(
          "reciprocal_f64", +[](double x) { return 1.0 / x; }),
      row(
          "fma_f32", +[](float x, float y, float z) { return std::fma(x, y, z); }),
      row(
          "fma_f64", +[](double x, double y, double z) { return std::fma(x, y, z); }),
      row(
          "contracted_f32", +[](float x, float y, float z) { return std::fma(x, y, z); }),
      row(
          "not_contracted_f32",
          +[](float x, float y, float z) {
            const volatile float product = x * y;
            return product + z;
          }),
      row(
          "not_contracted_f64",
          +[](double x, double y, double z) {
            const volatile double product = x * y;
            return product + z;
          }),
  };
}

Cases order() {
  return {
      row("min_f32", smaller<float>),
      row("max_f32", larger<float>),
      row("min_f64", smaller<double>),
      row("max_f64", larger<double>),
      row(
          "dim_f32", +[](float x, float y) { return std::fdim(x, y); }),
      row(
          "abs_f32", +[](float x) { return std::abs(x); }),
      row(
          "negate_f64", +[](double x) { return -x; }),
      row(
          "copysign_f32", +[](float x, float y) { return std::copysign(x, y); }),
      row(
          "copysign_f64", +[](double x, double y) { return std::copysign(x, y); }),
      row("compare_f32", comparisons<float>),
      row(
          "compare_negated_f32",
          +[](float x, float y) {
            return int{!(x < y)} | int{!(x <= y)} << 1 | int{!(x > y)} << 2 | int{!(x >= y)} << 3;
          }),
      row("compare_f64", comparisons<double>),
      row("classify_f32", classes<float>),
      row("classify_f64", classes<double>),
  };
}

Cases parts() {
  return {
      row(
          "floor_f32", +[](float x) { return std::floor(x); }),
      row(
          "ceil_f32", +[](float x) { return std::ceil(x); }),
      row(
          "trunc_f32", +[](float x) { return std::trunc(x); }),
      row(
          "rint_f32", +[](float x) { return std::rint(x); }),
      row(
          "round_f32", +[](float x) { return std::round(x); }),
      row(
          "floor_f64", +[](double x) { return std::floor(x); }),
      row(
          "ceil_f64", +[](double x) { return std::ceil(x); }),
      row(
          "nearbyint_f64", +[](double x) { return std::nearbyint(x); }),
      row(
          "round_f64", +[](double x) { return std::round(x); }),
      row(
          "fmod_f32", +[](float x, float y) { return std::fmod(x, y); }),
      row(
          "fmod_f64", +[](double x, double y) { return std::fmod(x, y); }),
      row(
          "remainder_f32", +[](float x, float y) { return std::remainder(x, y); }),
      row(
          "nextafter_f32", +[](float x, float y) { return std::nextafter(x, y); }),
      row(
          "nextafter_f64", +[](double x, double y) { return std::nextafter(x, y); }),
      row(
          "ldexp_f32", +[](float x, int y) { return std::ldexp(x, y); }),
      row(
          "ldexp_f64", +[](double x, int y) { return std::ldexp(x, y); }),
      row(
          "logb_f32", +[](float x) { return std::logb(x); }),
      // The result for zero, infinity and NaN is the implementation's choice in C; CUDA documents INT_MIN, INT_MAX,
      // INT_MIN.
      row(
          "ilogb_f64",
          +[](double x) {
            if (x == 0 || std::isnan(x)) return std::numeric_limits<int>::min();
            return std::isinf(x) ? std::numeric_limits<int>::max() : std::ilogb(x);
          }),
  };
}

/// kernel(a, first, second, n), two results per element.
template <class T, class Second>
Case split(const std::string& kernel, T (*reference)(T, Second*), bool (*defined)(T)) {
  return {"floating", kernel, [=](Device& device) {
            const std::vector<T> a = edge_values<T>(device, 0, map_size);
            const Array<T> first = device.allocate<T>(map_size);
            const Array<Second> second = device.allocate<Second>(map_size);
            device.launch(kernel, blocks_for(map_size), {map_block}, {device.upload(a), first, second, int(map_size)});
            std::vector<T> expected(map_size);
            std::vector<Second> expected_second(map_size), got_second = device.download(second);
            for (size_t i = 0; i < map_size; i++) {
              expected[i] = reference(a[i], &expected_second[i]);
              if (!defined(a[i])) got_second[i] = expected_second[i];
            }
            expect_same(device.download(first), expected, "first result");
            expect_same(got_second, expected_second, "second result");
          }};
}

/// kernel(a, b, out, n) with two results for each pair.
template <class T, class Reference>
Case pairs(const std::string& kernel, Reference reference) {
  return {"floating", kernel, [=](Device& device) {
            const std::vector<T> a = device.reals<T>(map_size, -100, 100), b = device.reals<T>(map_size, -1, 1);
            const Array<T> out = device.allocate<T>(2 * map_size);
            device.launch(kernel, blocks_for(map_size), {map_block},
                          {device.upload(a), device.upload(b), out, int(map_size)});
            const std::vector<T> got = device.download(out);
            for (size_t i = 0; i < map_size; i++) {
              // The first part is the result as T rounds it; the two hold the exact one, which long double does nearly.
              const long double exact = reference(static_cast<long double>(a[i]), static_cast<long double>(b[i]));
              ASSERT_TRUE(same(got[2 * i], static_cast<T>(reference(a[i], b[i])))) << i;
              ASSERT_NEAR(static_cast<double>(got[2 * i + 1]),
                          static_cast<double>(exact - static_cast<long double>(got[2 * i])),
                          static_cast<double>(std::abs(exact) * 0x1p-63L))
                  << i;
            }
          }};
}

void kahan_sum(Device& device) {
  const int rows = 40, columns = 1000;
  const std::vector<float> a = device.reals<float>(rows * columns, 0, 1);
  const Array<float> out = device.allocate<float>(rows);
  device.launch("kahan_sum", blocks_for(rows), {map_block}, {device.upload(a), out, rows, columns});
  std::vector<double> expected(rows);
  for (size_t i = 0; i < a.size(); i++) expected[i / columns] += static_cast<double>(a[i]);
  expect_near(device.download(out), expected, 0x1p-24);  // a plain sum would be off by several units
}

Cases programs() {
  return {
      split<float, int>(
          "frexp_f32", +[](float x, int* e) { return std::frexp(x, e); }, +[](float x) { return std::isfinite(x); }),
      split<double, int>(
          "frexp_f64", +[](double x, int* e) { return std::frexp(x, e); }, +[](double x) { return std::isfinite(x); }),
      split<float, float>(
          "modf_f32", +[](float x, float* whole) { return std::modf(x, whole); }, +[](float) { return true; }),
      pairs<float>("two_sum", [](auto x, auto y) { return x + y; }),
      pairs<double>("two_product", [](auto x, auto y) { return x * y; }),
      {"floating", "kahan_sum", kahan_sum},
  };
}

}  // namespace

Cases floating_cases() {
  Cases all = arithmetic();
  for (const Cases& more : {order(), parts(), programs()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace stepfuse::vgpu::corpus
