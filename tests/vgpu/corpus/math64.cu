// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// The double-precision library.

#define MAP1(name, T, expression)                              \
  extern "C" __global__ void name(const T* a, T* out, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x;             \
    if (i < n) {                                               \
      T x = a[i];                                              \
      out[i] = (expression);                                   \
    }                                                          \
  }
#define MAP2(name, T, expression)                                          \
  extern "C" __global__ void name(const T* a, const T* b, T* out, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                         \
    if (i < n) {                                                           \
      T x = a[i];                                                          \
      T y = b[i];                                                          \
      out[i] = (expression);                                               \
    }                                                                      \
  }

MAP1(exp_f64, double, exp(x))
MAP1(exp2_f64, double, exp2(x))
MAP1(exp10_f64, double, exp10(x))
MAP1(expm1_f64, double, expm1(x))
MAP1(log_f64, double, log(x))
MAP1(log2_f64, double, log2(x))
MAP1(log10_f64, double, log10(x))
MAP1(log1p_f64, double, log1p(x))
MAP1(sin_f64, double, sin(x))
MAP1(cos_f64, double, cos(x))
MAP1(tan_f64, double, tan(x))
MAP1(asin_f64, double, asin(x))
MAP1(acos_f64, double, acos(x))
MAP1(atan_f64, double, atan(x))
MAP1(sinh_f64, double, sinh(x))
MAP1(cosh_f64, double, cosh(x))
MAP1(tanh_f64, double, tanh(x))
MAP1(asinh_f64, double, asinh(x))
MAP1(acosh_f64, double, acosh(x))
MAP1(atanh_f64, double, atanh(x))
MAP1(erf_f64, double, erf(x))
MAP1(erfc_f64, double, erfc(x))
MAP1(cbrt_f64, double, cbrt(x))
MAP1(rcbrt_f64, double, rcbrt(x))
MAP1(sinpi_f64, double, sinpi(x))
MAP1(cospi_f64, double, cospi(x))
MAP1(normcdf_f64, double, normcdf(x))
MAP1(lgamma_f64, double, lgamma(x))
MAP1(tgamma_f64, double, tgamma(x))
MAP2(pow_f64, double, pow(x, y))
MAP2(atan2_f64, double, atan2(x, y))
MAP2(hypot_f64, double, hypot(x, y))
MAP2(rhypot_f64, double, rhypot(x, y))
