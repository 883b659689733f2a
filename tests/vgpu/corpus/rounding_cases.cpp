// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/rounding.h"
#include "tests/vgpu/corpus/values.h"

namespace stepfuse::vgpu::corpus {
namespace {

template <class Out, class... In>
Case row(const std::string& kernel, Out (*reference)(In...)) {
  return map("floating", kernel, reference);
}

/// The sign of an exact zero sum depends on the mode (IEEE 754 section 6.3).
double sum_in_mode(const Exact& exact, double a, double b, Rounding mode) {
  if (exact.near == 0 && exact.rest == 0 && mode == Rounding::Down &&
      !(a == 0 && b == 0 && !std::signbit(a) && !std::signbit(b))) {
    return -0.0;
  }
  return rounded(exact, single_format, mode);
}

template <Rounding mode>
float add(float x, float y) {
  return static_cast<float>(sum_in_mode(exact_sum(x, y), x, y, mode));
}

template <Rounding mode>
float subtract(float x, float y) {
  return add<mode>(x, -y);
}

template <Rounding mode>
float multiply(float x, float y) {
  return static_cast<float>(rounded(static_cast<double>(x) * static_cast<double>(y), single_format, mode));
}

template <Rounding mode>
float multiply_add(float x, float y, float z) {
  const double product = static_cast<double>(x) * static_cast<double>(y);
  return static_cast<float>(sum_in_mode(exact_sum(product, z), product, z, mode));
}

template <Rounding mode>
float divide(float x, float y) {
  return static_cast<float>(rounded(exact_quotient(x, y), single_format, mode));
}

template <Rounding mode>
float reciprocal(float x) {
  return divide<mode>(1, x);
}

template <Rounding mode>
float root(float x) {
  return static_cast<float>(rounded(exact_root(x), single_format, mode));
}

Cases single_precision() {
  using enum Rounding;
  return {
      row("add_rz_f32", add<Zero>),        row("add_ru_f32", add<Up>),
      row("add_rd_f32", add<Down>),        row("sub_rd_f32", subtract<Down>),
      row("mul_rz_f32", multiply<Zero>),   row("mul_ru_f32", multiply<Up>),
      row("mul_rd_f32", multiply<Down>),   row("fma_rz_f32", multiply_add<Zero>),
      row("fma_ru_f32", multiply_add<Up>), row("fma_rd_f32", multiply_add<Down>),
      row("div_rz_f32", divide<Zero>),     row("div_ru_f32", divide<Up>),
      row("div_rd_f32", divide<Down>),     row("rcp_rz_f32", reciprocal<Zero>),
      row("rcp_ru_f32", reciprocal<Up>),   row("sqrt_rz_f32", root<Zero>),
      row("sqrt_ru_f32", root<Up>),        row("sqrt_rd_f32", root<Down>),
  };
}

/// Double precision on numbers whose results keep away from overflow and from the smallest numbers, where the sign of
/// the missing part is not to be had in double.
Case double_row(const std::string& kernel, Exact (*exact)(double, double), Rounding mode, bool unary = false) {
  return {"floating", kernel, [=](Device& device) {
            std::vector<double> a(map_size), b(map_size), expected(map_size);
            for (size_t i = 0; i < map_size; i++) {
              const int scale = i % 3 == 0 ? 200 : 3;
              a[i] = std::ldexp(device.real(-1, 1), static_cast<int>(device.integer(-scale, scale)));
              b[i] = std::ldexp(device.real(-1, 1), static_cast<int>(device.integer(-scale, scale)));
              if (i % 50 == 0) b[i] = a[i];
              if (i % 50 == 1) a[i] = std::trunc(a[i]);
              if (i % 50 == 2) b[i] = 0.5;
              if (unary) a[i] = std::abs(a[i]);
              expected[i] = rounded_to_double(exact(a[i], b[i]), mode);
            }
            const Array<double> out = device.allocate<double>(map_size);
            std::vector<Argument> arguments{device.upload(a)};
            if (!unary) arguments.emplace_back(device.upload(b));
            arguments.emplace_back(out);
            arguments.emplace_back(static_cast<int>(map_size));
            device.launch(kernel, blocks_for(map_size), {map_block}, arguments);
            expect_same(device.download(out), expected);
          }};
}

Exact root_of_first(double a, double) { return exact_root(a); }

Cases double_precision() {
  using enum Rounding;
  return {
      double_row("add_rz_f64", exact_sum, Zero),
      double_row("add_ru_f64", exact_sum, Up),
      double_row("add_rd_f64", exact_sum, Down),
      double_row("mul_rz_f64", exact_product, Zero),
      double_row("mul_ru_f64", exact_product, Up),
      double_row("mul_rd_f64", exact_product, Down),
      double_row("div_rz_f64", exact_quotient, Zero),
      double_row("div_ru_f64", exact_quotient, Up),
      double_row("sqrt_rd_f64", root_of_first, Down, true),
      double_row("sqrt_ru_f64", root_of_first, Up, true),
  };
}

}  // namespace

Cases rounding_cases() {
  Cases all = single_precision();
  const Cases more = double_precision();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace stepfuse::vgpu::corpus
