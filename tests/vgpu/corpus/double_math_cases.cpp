// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <cmath>
#include <numbers>

namespace stepfuse::vgpu::corpus {
namespace {

// The bounds are those of the CUDA C++ Programming Guide, "Mathematical Functions", in units of the last place. The
// library of the host in long double serves as the exact value.

template <class... In>
Case row(const std::string& kernel, long double (*reference)(In...), double bound, Domain domain) {
  return math<double>("math64", kernel, reference, bound, domain);
}

/// Of the nearest whole number's distance: no digits are lost near the zeros.
long double sine_of_pi(long double x) {
  const long double r = std::remainder(x, 2.0L);
  const long double distance = std::abs(r) > 0.5L ? std::copysign(1 - std::abs(r), r) : r;
  return std::sin(std::numbers::pi_v<long double> * distance);
}

long double cosine_of_pi(long double x) {
  // Near the zeros the sine of the distance has the digits.
  return sine_of_pi(0.5L - std::abs(std::remainder(x, 2.0L)));
}

Cases exponentials_and_angles() {
  return {
      row("exp_f64", +[](long double x) { return std::exp(x); }, 1, {-700, 700, true}),
      row("exp2_f64", +[](long double x) { return std::exp2(x); }, 1, {-1000, 1000, true}),
      row("exp10_f64", +[](long double x) { return std::pow(10.0L, x); }, 1, {-300, 300, true}),
      row("expm1_f64", +[](long double x) { return std::expm1(x); }, 1, {-10, 10, true}),
      row("log_f64", +[](long double x) { return std::log(x); }, 1, {1e-300, 1e300, true, true}),
      row("log2_f64", +[](long double x) { return std::log2(x); }, 1, {1e-300, 1e300, true, true}),
      row("log10_f64", +[](long double x) { return std::log10(x); }, 1, {1e-300, 1e300, true, true}),
      row("log1p_f64", +[](long double x) { return std::log1p(x); }, 1, {-0.9, 10, true}),
      row("sin_f64", +[](long double x) { return std::sin(x); }, 2, {-1e5, 1e5, true}),
      row("cos_f64", +[](long double x) { return std::cos(x); }, 2, {-1e5, 1e5, true}),
      row("tan_f64", +[](long double x) { return std::tan(x); }, 2, {-1e5, 1e5, true}),
      row("asin_f64", +[](long double x) { return std::asin(x); }, 2, {-1, 1, true}),
      row("acos_f64", +[](long double x) { return std::acos(x); }, 2, {-1, 1, true}),
      row("atan_f64", +[](long double x) { return std::atan(x); }, 2, {-20, 20, true}),
      row("sinh_f64", +[](long double x) { return std::sinh(x); }, 2, {-80, 80, true}),
      row("cosh_f64", +[](long double x) { return std::cosh(x); }, 1, {-80, 80, true}),
      row("tanh_f64", +[](long double x) { return std::tanh(x); }, 1, {-5, 5, true}),
      row("asinh_f64", +[](long double x) { return std::asinh(x); }, 3, {-100, 100, true}),
      row("acosh_f64", +[](long double x) { return std::acosh(x); }, 3, {1, 100, true}),
      row("atanh_f64", +[](long double x) { return std::atanh(x); }, 2, {-1, 1, true}),
  };
}

Cases special_functions() {
  return {
      row("erf_f64", +[](long double x) { return std::erf(x); }, 2, {-4, 4, true}),
      row("erfc_f64", +[](long double x) { return std::erfc(x); }, 5, {-4, 20, true}),
      row("cbrt_f64", +[](long double x) { return std::cbrt(x); }, 1, {-1e6, 1e6, true}),
      row("rcbrt_f64", +[](long double x) { return 1 / std::cbrt(x); }, 1, {-1e6, 1e6, true}),
      row("sinpi_f64", +[](long double x) { return sine_of_pi(x); }, 2, {-50, 50, false}),
      row("cospi_f64", +[](long double x) { return cosine_of_pi(x); }, 2, {-50, 50, false}),
      row("normcdf_f64", +[](long double x) { return std::erfc(-x * std::sqrt(0.5L)) / 2; }, 5, {-30, 10, false}),
      row("lgamma_f64", +[](long double x) { return std::lgamma(x); }, 4, {3.5, 100, false}),
      row("tgamma_f64", +[](long double x) { return std::tgamma(x); }, 10, {0.1, 150, false}),
      row("pow_f64", +[](long double x, long double y) { return std::pow(x, y); }, 2, {0.01, 20, true}),
      row("atan2_f64", +[](long double x, long double y) { return std::atan2(x, y); }, 2, {-10, 10, true}),
      row("hypot_f64", +[](long double x, long double y) { return std::hypot(x, y); }, 2, {-1e5, 1e5, true}),
      row("rhypot_f64", +[](long double x, long double y) { return 1 / std::hypot(x, y); }, 1, {-1e5, 1e5, false}),
  };
}

}  // namespace

Cases double_math_cases() {
  Cases all = exponentials_and_angles();
  const Cases more = special_functions();
  all.insert(all.end(), more.begin(), more.end());
  Case root = math<double>("refused_rsqrt", "rsqrt_f64", +[](long double x) { return 1 / std::sqrt(x); }, 1,
                           {1e-300, 1e300, true, true});
  root.refused = "rsqrt.approx.f64";
  all.push_back(root);
  return all;
}

}  // namespace stepfuse::vgpu::corpus
