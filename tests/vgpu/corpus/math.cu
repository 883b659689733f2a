// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// The single-precision library.

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

MAP1(exp_f32, float, expf(x))
MAP1(exp2_f32, float, exp2f(x))
MAP1(exp10_f32, float, exp10f(x))
MAP1(expm1_f32, float, expm1f(x))
MAP1(log_f32, float, logf(x))
MAP1(log2_f32, float, log2f(x))
MAP1(log10_f32, float, log10f(x))
MAP1(log1p_f32, float, log1pf(x))
MAP1(sin_f32, float, sinf(x))
MAP1(cos_f32, float, cosf(x))
MAP1(tan_f32, float, tanf(x))
MAP1(asin_f32, float, asinf(x))
MAP1(acos_f32, float, acosf(x))
MAP1(atan_f32, float, atanf(x))
MAP1(sinh_f32, float, sinhf(x))
MAP1(cosh_f32, float, coshf(x))
MAP1(tanh_f32, float, tanhf(x))
MAP1(asinh_f32, float, asinhf(x))
MAP1(acosh_f32, float, acoshf(x))
MAP1(atanh_f32, float, atanhf(x))
MAP1(erf_f32, float, erff(x))
MAP1(erfc_f32, float, erfcf(x))
MAP1(cbrt_f32, float, cbrtf(x))
MAP1(rcbrt_f32, float, rcbrtf(x))
MAP1(rsqrt_f32, float, rsqrtf(x))
MAP1(sinpi_f32, float, sinpif(x))
MAP1(cospi_f32, float, cospif(x))
MAP1(normcdf_f32, float, normcdff(x))
MAP1(lgamma_f32, float, lgammaf(x))
MAP1(tgamma_f32, float, tgammaf(x))
MAP2(pow_f32, float, powf(x, y))
MAP2(atan2_f32, float, atan2f(x, y))
MAP2(hypot_f32, float, hypotf(x, y))
MAP2(rhypot_f32, float, rhypotf(x, y))
MAP2(norm3_f32, float, norm3df(x, y, 1.0f))
MAP1(erfinv_of_erf_f32, float, erfinvf(erff(x)))

extern "C" __global__ void sincos_f32(const float* a, float* sine, float* cosine, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sincosf(a[i], &sine[i], &cosine[i]);
}

extern "C" __global__ void gelu_f32(const float* a, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 0.5f * a[i] * (1.0f + erff(a[i] * 0.70710678f));
}

extern "C" __global__ void sigmoid_f32(const float* a, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 1.0f / (1.0f + expf(-a[i]));
}

extern "C" __global__ void softplus_f32(const float* a, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] > 20.0f ? a[i] : log1pf(expf(a[i]));
}
