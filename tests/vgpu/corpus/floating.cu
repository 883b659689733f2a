// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Single and double precision as IEEE 754 defines it: every result is exact or correctly rounded.

#define MAP1(name, R, A, expression)                           \
  extern "C" __global__ void name(const A* a, R* out, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x;             \
    if (i < n) {                                               \
      A x = a[i];                                              \
      out[i] = (expression);                                   \
    }                                                          \
  }
#define MAP2(name, R, A, B, expression)                                    \
  extern "C" __global__ void name(const A* a, const B* b, R* out, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                         \
    if (i < n) {                                                           \
      A x = a[i];                                                          \
      B y = b[i];                                                          \
      out[i] = (expression);                                               \
    }                                                                      \
  }
#define MAP3(name, R, A, B, C, expression)                                             \
  extern "C" __global__ void name(const A* a, const B* b, const C* c, R* out, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                     \
    if (i < n) {                                                                       \
      A x = a[i];                                                                      \
      B y = b[i];                                                                      \
      C z = c[i];                                                                      \
      out[i] = (expression);                                                           \
    }                                                                                  \
  }

MAP2(add_f32, float, float, float, x + y)
MAP2(sub_f64, double, double, double, x - y)
MAP2(mul_f32, float, float, float, x* y)
MAP2(mul_f64, double, double, double, x* y)
MAP2(div_f32, float, float, float, x / y)
MAP2(div_f64, double, double, double, x / y)
MAP1(sqrt_f32, float, float, sqrtf(x))
MAP1(sqrt_f64, double, double, sqrt(x))
MAP1(reciprocal_f32, float, float, 1.0f / x)
MAP1(reciprocal_f64, double, double, 1.0 / x)
MAP3(fma_f32, float, float, float, float, fmaf(x, y, z))
MAP3(fma_f64, double, double, double, double, fma(x, y, z))
MAP3(contracted_f32, float, float, float, float, x* y + z)
MAP3(not_contracted_f32, float, float, float, float, __fadd_rn(__fmul_rn(x, y), z))
MAP3(not_contracted_f64, double, double, double, double, __dadd_rn(__dmul_rn(x, y), z))

MAP2(min_f32, float, float, float, fminf(x, y))
MAP2(max_f32, float, float, float, fmaxf(x, y))
MAP2(min_f64, double, double, double, fmin(x, y))
MAP2(max_f64, double, double, double, fmax(x, y))
MAP2(dim_f32, float, float, float, fdimf(x, y))
MAP1(abs_f32, float, float, fabsf(x))
MAP1(negate_f64, double, double, -x)
MAP2(copysign_f32, float, float, float, copysignf(x, y))
MAP2(copysign_f64, double, double, double, copysign(x, y))
MAP2(compare_f32, int, float, float,
     (x < y) | (x <= y) << 1 | (x > y) << 2 | (x >= y) << 3 | (x == y) << 4 | (x != y) << 5)
MAP2(compare_negated_f32, int, float, float, !(x < y) | !(x <= y) << 1 | !(x > y) << 2 | !(x >= y) << 3)
MAP2(compare_f64, int, double, double,
     (x < y) | (x <= y) << 1 | (x > y) << 2 | (x >= y) << 3 | (x == y) << 4 | (x != y) << 5)
MAP1(classify_f32, int, float, isnan(x) | isinf(x) << 1 | isfinite(x) << 2 | signbit(x) << 3)
MAP1(classify_f64, int, double, isnan(x) | isinf(x) << 1 | isfinite(x) << 2 | signbit(x) << 3)

MAP1(floor_f32, float, float, floorf(x))
MAP1(ceil_f32, float, float, ceilf(x))
MAP1(trunc_f32, float, float, truncf(x))
MAP1(rint_f32, float, float, rintf(x))
MAP1(round_f32, float, float, roundf(x))
MAP1(floor_f64, double, double, floor(x))
MAP1(ceil_f64, double, double, ceil(x))
MAP1(nearbyint_f64, double, double, nearbyint(x))
MAP1(round_f64, double, double, round(x))
MAP2(fmod_f32, float, float, float, fmodf(x, y))
MAP2(fmod_f64, double, double, double, fmod(x, y))
MAP2(remainder_f32, float, float, float, remainderf(x, y))
MAP2(nextafter_f32, float, float, float, nextafterf(x, y))
MAP2(nextafter_f64, double, double, double, nextafter(x, y))
MAP2(ldexp_f32, float, float, int, ldexpf(x, y))
MAP2(ldexp_f64, double, double, int, ldexp(x, y))
MAP1(logb_f32, float, float, logbf(x))
MAP1(ilogb_f64, int, double, ilogb(x))

extern "C" __global__ void frexp_f32(const float* a, float* mantissa, int* exponent, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) mantissa[i] = frexpf(a[i], &exponent[i]);
}

extern "C" __global__ void frexp_f64(const double* a, double* mantissa, int* exponent, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) mantissa[i] = frexp(a[i], &exponent[i]);
}

extern "C" __global__ void modf_f32(const float* a, float* fraction, float* whole, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) fraction[i] = modff(a[i], &whole[i]);
}

// Directed rounding.
MAP2(add_rz_f32, float, float, float, __fadd_rz(x, y))
MAP2(add_ru_f32, float, float, float, __fadd_ru(x, y))
MAP2(add_rd_f32, float, float, float, __fadd_rd(x, y))
MAP2(sub_rd_f32, float, float, float, __fsub_rd(x, y))
MAP2(mul_rz_f32, float, float, float, __fmul_rz(x, y))
MAP2(mul_ru_f32, float, float, float, __fmul_ru(x, y))
MAP2(mul_rd_f32, float, float, float, __fmul_rd(x, y))
MAP3(fma_rz_f32, float, float, float, float, __fmaf_rz(x, y, z))
MAP3(fma_ru_f32, float, float, float, float, __fmaf_ru(x, y, z))
MAP3(fma_rd_f32, float, float, float, float, __fmaf_rd(x, y, z))
MAP2(div_rz_f32, float, float, float, __fdiv_rz(x, y))
MAP2(div_ru_f32, float, float, float, __fdiv_ru(x, y))
MAP2(div_rd_f32, float, float, float, __fdiv_rd(x, y))
MAP1(rcp_rz_f32, float, float, __frcp_rz(x))
MAP1(rcp_ru_f32, float, float, __frcp_ru(x))
MAP1(sqrt_rz_f32, float, float, __fsqrt_rz(x))
MAP1(sqrt_ru_f32, float, float, __fsqrt_ru(x))
MAP1(sqrt_rd_f32, float, float, __fsqrt_rd(x))
MAP2(add_rz_f64, double, double, double, __dadd_rz(x, y))
MAP2(add_ru_f64, double, double, double, __dadd_ru(x, y))
MAP2(add_rd_f64, double, double, double, __dadd_rd(x, y))
MAP2(mul_rz_f64, double, double, double, __dmul_rz(x, y))
MAP2(mul_ru_f64, double, double, double, __dmul_ru(x, y))
MAP2(mul_rd_f64, double, double, double, __dmul_rd(x, y))
MAP2(div_rz_f64, double, double, double, __ddiv_rz(x, y))
MAP2(div_ru_f64, double, double, double, __ddiv_ru(x, y))
MAP1(sqrt_rd_f64, double, double, __dsqrt_rd(x))
MAP1(sqrt_ru_f64, double, double, __dsqrt_ru(x))

// Exact transformations that fall apart under any wrong rounding.
extern "C" __global__ void two_sum(const float* a, const float* b, float2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = a[i], y = b[i];
  float sum = x + y;
  float virtual_y = sum - x;
  float error = (x - (sum - virtual_y)) + (y - virtual_y);
  out[i] = make_float2(sum, error);
}

extern "C" __global__ void two_product(const double* a, const double* b, double2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double product = a[i] * b[i];
  out[i] = make_double2(product, fma(a[i], b[i], -product));
}

extern "C" __global__ void kahan_sum(const float* a, float* out, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f, compensation = 0.0f;
  for (int k = 0; k < columns; k++) {
    float y = a[row * columns + k] - compensation;
    float t = sum + y;
    compensation = (t - sum) - y;
    sum = t;
  }
  out[row] = sum;
}
