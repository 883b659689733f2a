// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <cmath>

namespace stepfuse::vgpu::corpus {
namespace {

using Reference = double (*)(double, double);
using Tolerance = double (*)(double x, double y, double exact);

/// What one unit in the last place of a float weighs at `exact`.
double unit(double exact) { return std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23); }

/// kernel(a, [b,] out, n) within `tolerance` of the reference.
Case row(const std::string& kernel, int arguments, Reference reference, Tolerance tolerance, Domain x, Domain y = {}) {
  return {"fast", kernel, [=](Device& device) {
            const std::vector<float> a = domain_values<float>(device, x, 0), b = domain_values<float>(device, y, 1);
            const Array<float> out = device.allocate<float>(map_size);
            std::vector<Argument> list{device.upload(a)};
            if (arguments == 2) list.emplace_back(device.upload(b));
            list.emplace_back(out);
            list.emplace_back(static_cast<int>(map_size));
            device.launch(kernel, blocks_for(map_size), {map_block}, list);
            const std::vector<float> got = device.download(out);
            for (size_t i = 0; i < map_size; i++) {
              const double exact = reference(a[i], b[i]);
              ASSERT_LE(std::abs(static_cast<double>(got[i]) - exact), tolerance(a[i], b[i], exact) + unit(exact) / 2)
                  << kernel << " of " << shown(a[i]) << " " << shown(b[i]) << " is " << shown(got[i]) << ", expected "
                  << exact;
            }
          }};
}

template <int count>
double some_ulps(double, double, double exact) {
  return count * unit(exact);
}

// Bounds of the CUDA C++ Programming Guide, "Intrinsic Functions".
Cases intrinsics() {
  return {
      row(
          "fast_exp", 1, +[](double x, double) { return std::exp(x); },
          +[](double x, double, double exact) { return (2 + std::floor(std::abs(1.173 * x))) * unit(exact); },
          {-80, 80}),
      row(
          "fast_exp10", 1, +[](double x, double) { return std::pow(10.0, x); },
          +[](double x, double, double exact) { return (2 + std::floor(std::abs(2.97 * x))) * unit(exact); },
          {-30, 30}),
      row(
          "fast_log", 1, +[](double x, double) { return std::log(x); },
          +[](double x, double, double exact) { return x >= 0.5 && x <= 2 ? 0x1p-21 : 3 * unit(exact); },
          {1e-30, 1e30, false, true}),
      row(
          "fast_log2", 1, +[](double x, double) { return std::log2(x); },
          +[](double x, double, double exact) { return x >= 0.5 && x <= 2 ? 0x1p-22 : 2 * unit(exact); },
          {1e-30, 1e30, false, true}),
      row(
          "fast_log10", 1, +[](double x, double) { return std::log10(x); },
          +[](double x, double, double exact) { return x >= 0.5 && x <= 2 ? 0x1p-24 + unit(exact) : 3 * unit(exact); },
          {1e-30, 1e30, false, true}),
      row(
          "fast_sin", 1, +[](double x, double) { return std::sin(x); }, +[](double, double, double) { return 0x1p-21; },
          {-3.1415, 3.1415}),
      row(
          "fast_cos", 1, +[](double x, double) { return std::cos(x); }, +[](double, double, double) { return 0x1p-21; },
          {-3.1415, 3.1415}),
      row(
          "fast_tan", 1, +[](double x, double) { return std::tan(x); }, +[](double, double, double) { return 0x1p-19; },
          {-1, 1}),
      // exp2(y * log2(x)): the error of the logarithm times y.
      row(
          "fast_power", 2, +[](double x, double y) { return std::pow(x, y); },
          +[](double, double, double exact) { return 0x1p-18 * exact; }, {0.1, 10}, {-4, 4}),
      row("fast_divide", 2, +[](double x, double y) { return x / y; }, some_ulps<2>, {-100, 100}, {0.001, 100}),
      row("plain_divide", 2, +[](double x, double y) { return x / y; }, some_ulps<2>, {-100, 100}, {0.001, 100}),
      row("plain_reciprocal", 1, +[](double x, double) { return 1 / x; }, some_ulps<1>, {0.001, 1000, false, true}),
      row("plain_sqrt", 1, +[](double x, double) { return std::sqrt(x); }, some_ulps<3>, {0.001, 1000, false, true}),
      row("plain_rsqrt", 1, +[](double x, double) { return 1 / std::sqrt(x); }, some_ulps<2>,
          {0.001, 1000, false, true}),
      // tanh.approx.f32: relative error 2^-11 (PTX ISA 9.7.3.21).
      row(
          "plain_tanh", 1, +[](double x, double) { return std::tanh(x); },
          +[](double, double, double exact) { return 0x1p-10 * std::abs(exact); }, {-8, 8}),
  };
}

/// .ftz: numbers below the smallest normal one count as zero of their sign, before and after.
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

template <class... In>
Case exact_row(const std::string& kernel, float (*reference)(In...)) {
  return map("fast", kernel, reference);
}

/// minNum with -0 below +0 (PTX ISA 9.7.3, min).
float smaller(float x, float y) {
  if (std::isnan(x)) return y;
  if (std::isnan(y)) return x;
  if (x == y) return std::signbit(x) ? x : y;
  return x < y ? x : y;
}

Cases flushing() {
  return {
      exact_row(
          "flushing_add", +[](float x, float y) { return flushed(flushed(x) + flushed(y)); }),
      exact_row(
          "flushing_multiply", +[](float x, float y) { return flushed(flushed(x) * flushed(y)); }),
      exact_row(
          "flushing_fma", +[](float x, float y) { return flushed(std::fma(flushed(x), flushed(y), flushed(1e-38f))); }),
      exact_row(
          "flushing_min", +[](float x, float y) { return smaller(flushed(x), flushed(y)); }),
      exact_row(
          "flushing_scale", +[](float x) { return flushed(flushed(x) * 0.25f); }),
  };
}

}  // namespace

Cases fast_math_cases() {
  Cases all = intrinsics();
  const Cases more = flushing();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace stepfuse::vgpu::corpus
