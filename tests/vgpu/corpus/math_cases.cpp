// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <cmath>
#include <numbers>

namespace stepfuse::vgpu::corpus {
namespace {

// The bounds are those of the CUDA C++ Programming Guide, "Mathematical Functions", in units of the last place. The
// library of the host in double serves as the exact value.

template <class... In>
Case row(const std::string& kernel, double (*reference)(In...), double bound, Domain domain) {
  return math<float>("math", kernel, reference, bound, domain);
}

/// Of the nearest whole number's distance: no digits are lost near the zeros.
double sine_of_pi(double x) {
  const double r = std::remainder(x, 2.0);
  const double distance = std::abs(r) > 0.5 ? std::copysign(1 - std::abs(r), r) : r;
  return std::sin(std::numbers::pi_v<double> * distance);
}

double cosine_of_pi(double x) {
  // Near the zeros the sine of the distance has the digits.
  return sine_of_pi(0.5 - std::abs(std::remainder(x, 2.0)));
}

Cases exponentials_and_angles() {
  return {
      row("exp_f32", +[](double x) { return std::exp(x); }, 1, {-87, 88, true}),
      row("exp2_f32", +[](double x) { return std::exp2(x); }, 2, {-126, 127, true}),
      row("exp10_f32", +[](double x) { return std::pow(10.0, x); }, 2, {-37, 38, true}),
      row("expm1_f32", +[](double x) { return std::expm1(x); }, 1, {-10, 10, true}),
      row("log_f32", +[](double x) { return std::log(x); }, 1, {1e-30, 1e30, true, true}),
      row("log2_f32", +[](double x) { return std::log2(x); }, 1, {1e-30, 1e30, true, true}),
      row("log10_f32", +[](double x) { return std::log10(x); }, 2, {1e-30, 1e30, true, true}),
      row("log1p_f32", +[](double x) { return std::log1p(x); }, 1, {-0.9, 10, true}),
      row("sin_f32", +[](double x) { return std::sin(x); }, 2, {-1e5, 1e5, true}),
      row("cos_f32", +[](double x) { return std::cos(x); }, 2, {-1e5, 1e5, true}),
      row("tan_f32", +[](double x) { return std::tan(x); }, 4, {-1e5, 1e5, true}),
      row("asin_f32", +[](double x) { return std::asin(x); }, 2, {-1, 1, true}),
      row("acos_f32", +[](double x) { return std::acos(x); }, 2, {-1, 1, true}),
      row("atan_f32", +[](double x) { return std::atan(x); }, 2, {-20, 20, true}),
      row("sinh_f32", +[](double x) { return std::sinh(x); }, 3, {-80, 80, true}),
      row("cosh_f32", +[](double x) { return std::cosh(x); }, 2, {-80, 80, true}),
      row("tanh_f32", +[](double x) { return std::tanh(x); }, 2, {-5, 5, true}),
      row("asinh_f32", +[](double x) { return std::asinh(x); }, 3, {-100, 100, true}),
      row("acosh_f32", +[](double x) { return std::acosh(x); }, 4, {1, 100, true}),
      row("atanh_f32", +[](double x) { return std::atanh(x); }, 3, {-1, 1, true}),
  };
}

Cases special_functions() {
  return {
      row("erf_f32", +[](double x) { return std::erf(x); }, 2, {-4, 4, true}),
      row("erfc_f32", +[](double x) { return std::erfc(x); }, 4, {-4, 9, true}),
      row("cbrt_f32", +[](double x) { return std::cbrt(x); }, 1, {-1e6, 1e6, true}),
      row("rcbrt_f32", +[](double x) { return 1 / std::cbrt(x); }, 1, {-1e6, 1e6, true}),
      row("rsqrt_f32", +[](double x) { return 1 / std::sqrt(x); }, 2, {1e-30, 1e30, true, true}),
      row("sinpi_f32", +[](double x) { return sine_of_pi(x); }, 1, {-50, 50, false}),
      row("cospi_f32", +[](double x) { return cosine_of_pi(x); }, 1, {-50, 50, false}),
      row("normcdf_f32", +[](double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }, 5, {-10, 10, false}),
      row("lgamma_f32", +[](double x) { return std::lgamma(x); }, 6, {3.5, 100, false}),
      row("tgamma_f32", +[](double x) { return std::tgamma(x); }, 5, {0.1, 30, false}),
      row("pow_f32", +[](double x, double y) { return std::pow(x, y); }, 4, {0.01, 20, true}),
      row("atan2_f32", +[](double x, double y) { return std::atan2(x, y); }, 3, {-10, 10, true}),
      row("hypot_f32", +[](double x, double y) { return std::hypot(x, y); }, 3, {-1e5, 1e5, true}),
      row("rhypot_f32", +[](double x, double y) { return 1 / std::hypot(x, y); }, 2, {-1e5, 1e5, false}),
      row("norm3_f32", +[](double x, double y) { return std::sqrt(x * x + y * y + 1); }, 3, {-1e5, 1e5, false}),
      // Bounds of the parts, by what each does to an error of the one before.
      row("gelu_f32", +[](double x) { return x * std::erfc(-x * std::sqrt(0.5)) / 2; }, 12, {-0.5, 8, false}),
      row("sigmoid_f32", +[](double x) { return 1 / (1 + std::exp(-x)); }, 3, {-80, 80, false}),
      row("softplus_f32", +[](double x) { return std::log1p(std::exp(x)); }, 4, {-80, 30, false}),
  };
}

void sincos_f32(Device& device) {
  const std::vector<float> a = device.reals<float>(map_size, -1e6, 1e6);
  const Array<float> sine = device.allocate<float>(map_size), cosine = device.allocate<float>(map_size);
  device.launch("sincos_f32", blocks_for(map_size), {map_block}, {device.upload(a), sine, cosine, int(map_size)});
  const std::vector<float> sines = device.download(sine), cosines = device.download(cosine);
  for (size_t i = 0; i < map_size; i++) {
    ASSERT_LE(ulps(sines[i], std::sin(static_cast<double>(a[i]))), 2.5) << a[i];
    ASSERT_LE(ulps(cosines[i], std::cos(static_cast<double>(a[i]))), 2.5) << a[i];
  }
}

/// The inverse gives the number back as far as the rounding of erf lets it: its slope at 1.5 is 0.119.
void erfinv_of_erf(Device& device) {
  const std::vector<float> a = device.reals<float>(map_size, -1.5, 1.5);
  const Array<float> out = device.allocate<float>(map_size);
  device.launch("erfinv_of_erf_f32", blocks_for(map_size), {map_block}, {device.upload(a), out, int(map_size)});
  expect_near(device.download(out), a, 1e-6, 1e-6);
}

}  // namespace

Cases math_cases() {
  Cases all = exponentials_and_angles();
  const Cases more = special_functions();
  all.insert(all.end(), more.begin(), more.end());
  all.push_back({"math", "sincos_f32", sincos_f32});
  all.push_back({"math", "erfinv_of_erf_f32", erfinv_of_erf});
  return all;
}

}  // namespace stepfuse::vgpu::corpus
