// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Half precision through the toolkit's intrinsics.
#include <cuda_fp16.h>

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x
#define MAP1(name, R, A, expression)                           \
  extern "C" __global__ void name(const A* a, R* out, int n) { \
    INDEX;                                                     \
    if (i < n) {                                               \
      A x = a[i];                                              \
      out[i] = (expression);                                   \
    }                                                          \
  }
#define MAP2(name, R, A, expression)                                       \
  extern "C" __global__ void name(const A* a, const A* b, R* out, int n) { \
    INDEX;                                                                 \
    if (i < n) {                                                           \
      A x = a[i];                                                          \
      A y = b[i];                                                          \
      out[i] = (expression);                                               \
    }                                                                      \
  }
#define MAP3(name, R, A, expression)                                                   \
  extern "C" __global__ void name(const A* a, const A* b, const A* c, R* out, int n) { \
    INDEX;                                                                             \
    if (i < n) {                                                                       \
      A x = a[i];                                                                      \
      A y = b[i];                                                                      \
      A z = c[i];                                                                      \
      out[i] = (expression);                                                           \
    }                                                                                  \
  }

MAP1(to_float, float, __half, __half2float(x))
MAP1(from_float, __half, float, __float2half_rn(x))
MAP1(from_float_rz, __half, float, __float2half_rz(x))
MAP1(from_float_ru, __half, float, __float2half_ru(x))
MAP1(from_float_rd, __half, float, __float2half_rd(x))
MAP1(from_double, __half, double, __double2half(x))
MAP1(to_int_rz, int, __half, __half2int_rz(x))
MAP1(to_int_rn, int, __half, __half2int_rn(x))
MAP1(from_int, __half, int, __int2half_rn(x))
MAP1(to_short, short, __half, __half2short_rn(x))
MAP2(add, __half, __half, __hadd_rn(x, y))
MAP2(subtract, __half, __half, x - y)
MAP2(multiply, __half, __half, __hmul_rn(x, y))
MAP2(divide, __half, __half, __hdiv(x, y))
MAP3(fused, __half, __half, __hfma(x, y, z))
MAP3(fused_saturated, __half, __half, __hfma_sat(x, y, z))
MAP2(add_saturated, __half, __half, __hadd_sat(x, y))
MAP1(negate, __half, __half, __hneg(x))
MAP1(absolute, __half, __half, __habs(x))
MAP2(compare, int, __half,
     __heq(x, y) | __hne(x, y) << 1 | __hlt(x, y) << 2 | __hle(x, y) << 3 | __hgt(x, y) << 4 | __hge(x, y) << 5)
MAP2(compare_unordered, int, __half, __hequ(x, y) | __hltu(x, y) << 1 | __hgeu(x, y) << 2 | __hneu(x, y) << 3)
MAP1(square_root, __half, __half, hsqrt(x))
MAP1(floor_half, __half, __half, hfloor(x))
MAP1(round_half, __half, __half, hrint(x))
MAP1(bits_of, short, __half, __half_as_short(x))
MAP1(exponential, __half, __half, hexp(x))
MAP1(logarithm, __half, __half, hlog(x))
#if __CUDA_ARCH__ >= 800
MAP2(maximum, __half, __half, __hmax(x, y))
MAP2(minimum, __half, __half, __hmin(x, y))
MAP2(maximum_nan, __half, __half, __hmax_nan(x, y))
MAP3(fused_relu, __half, __half, __hfma_relu(x, y, z))
#endif

// Two in one register.
MAP2(add_packed, __half2, __half2, __hadd2(x, y))
MAP2(multiply_packed, __half2, __half2, __hmul2(x, y))
MAP3(fused_packed, __half2, __half2, __hfma2(x, y, z))
MAP2(compare_packed, unsigned, __half2, __hlt2_mask(x, y))
MAP1(swap_packed, __half2, __half2, __lowhigh2highlow(x))
MAP2(pick_packed, __half2, __half2, __halves2half2(__high2half(x), __low2half(y)))
MAP1(to_float2, float2, __half2, __half22float2(x))
MAP1(from_float2, __half2, float2, __float22half2_rn(x))

extern "C" __global__ void axpy(__half a, const __half2* x, __half2* y, int pairs) {
  INDEX;
  if (i < pairs) y[i] = __hfma2(__half2half2(a), x[i], y[i]);
}

// Eight numbers per load, sums in float.
extern "C" __global__ void dot(const uint4* a, const uint4* b, float* out, int eights) {
  float sum = 0.0f;
  for (int k = threadIdx.x; k < eights; k += blockDim.x) {
    uint4 x = a[k], y = b[k];
    const __half2 *xs = reinterpret_cast<const __half2*>(&x), *ys = reinterpret_cast<const __half2*>(&y);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      float2 p = __half22float2(xs[j]), q = __half22float2(ys[j]);
      sum += p.x * q.x + p.y * q.y;
    }
  }
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, mask);
  if (threadIdx.x == 0) *out = sum;
}

extern "C" __global__ void shuffle_half(const __half* in, __half2* out) {
  INDEX;
  __half2 pair = __halves2half2(in[i], __shfl_xor_sync(0xFFFFFFFFu, in[i], 1));
  out[i] = __shfl_down_sync(0xFFFFFFFFu, pair, 2);
}

extern "C" __global__ void atomic_half2(const __half2* in, __half2* out) {
  INDEX;
  atomicAdd(out, in[i]);
}

extern "C" __global__ void atomic_half(const __half* in, __half* out) {
  INDEX;
  atomicAdd(&out[i % 3], in[i]);
}

// Master weights in float, the model's copy in half.
extern "C" __global__ void mixed_precision_step(float* master, __half* model, const __half* gradient, float rate,
                                                float scale, int n) {
  INDEX;
  if (i >= n) return;
  float p = __fmaf_rn(-rate, __half2float(gradient[i]) / scale, master[i]);
  master[i] = p;
  model[i] = __float2half(p);
}
