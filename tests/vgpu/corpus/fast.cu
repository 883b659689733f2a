// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Approximate intrinsics and what --use_fast_math makes of the library.

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

MAP1(fast_exp, float, __expf(x))
MAP1(fast_exp10, float, __exp10f(x))
MAP1(fast_log, float, __logf(x))
MAP1(fast_log2, float, __log2f(x))
MAP1(fast_log10, float, __log10f(x))
MAP1(fast_sin, float, __sinf(x))
MAP1(fast_cos, float, __cosf(x))
MAP1(fast_tan, float, __tanf(x))
MAP2(fast_power, float, __powf(x, y))
MAP2(fast_divide, float, __fdividef(x, y))
MAP2(plain_divide, float, x / y)
MAP1(plain_reciprocal, float, 1.0f / x)
MAP1(plain_sqrt, float, sqrtf(x))
MAP1(plain_rsqrt, float, rsqrtf(x))
MAP1(plain_tanh, float, tanhf(x))
MAP2(flushing_add, float, x + y)
MAP2(flushing_multiply, float, x* y)
MAP2(flushing_fma, float, fmaf(x, y, 1e-38f))
MAP2(flushing_min, float, fminf(x, y))
MAP1(flushing_scale, float, x * 0.25f)
