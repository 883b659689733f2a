// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// bfloat16 through the toolkit's intrinsics.
#include <cuda_bf16.h>

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

MAP1(to_float, float, __nv_bfloat16, __bfloat162float(x))
MAP1(from_float, __nv_bfloat16, float, __float2bfloat16_rn(x))
MAP1(from_float_rz, __nv_bfloat16, float, __float2bfloat16_rz(x))
MAP1(from_float_ru, __nv_bfloat16, float, __float2bfloat16_ru(x))
MAP1(from_float_rd, __nv_bfloat16, float, __float2bfloat16_rd(x))
MAP2(add, __nv_bfloat16, __nv_bfloat16, __hadd_rn(x, y))
MAP2(subtract, __nv_bfloat16, __nv_bfloat16, x - y)
MAP2(multiply, __nv_bfloat16, __nv_bfloat16, __hmul_rn(x, y))
MAP1(negate, __nv_bfloat16, __nv_bfloat16, __hneg(x))
MAP1(absolute, __nv_bfloat16, __nv_bfloat16, __habs(x))
MAP2(compare, int, __nv_bfloat16,
     __heq(x, y) | __hne(x, y) << 1 | __hlt(x, y) << 2 | __hle(x, y) << 3 | __hgt(x, y) << 4 | __hge(x, y) << 5)
MAP2(add_packed, __nv_bfloat162, __nv_bfloat162, __hadd2(x, y))
MAP1(to_float2, float2, __nv_bfloat162, __bfloat1622float2(x))
MAP1(from_float2, __nv_bfloat162, float2, __float22bfloat162_rn(x))
MAP1(bits_of, short, __nv_bfloat16, __bfloat16_as_short(x))

#if __CUDA_ARCH__ >= 800
MAP3(fused, __nv_bfloat16, __nv_bfloat16, __hfma(x, y, z))
MAP2(maximum, __nv_bfloat16, __nv_bfloat16, __hmax(x, y))
MAP2(minimum, __nv_bfloat16, __nv_bfloat16, __hmin(x, y))
MAP3(fused_packed, __nv_bfloat162, __nv_bfloat162, __hfma2(x, y, z))
#endif

// By hand, as code for older devices does it: round to nearest, ties to even.
extern "C" __global__ void round_by_hand(const float* a, unsigned short* out, int n) {
  INDEX;
  if (i >= n) return;
  unsigned bits = __float_as_uint(a[i]);
  out[i] = a[i] != a[i] ? 0x7FFF : (unsigned short)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// Rounds up with the probability of what is cut off.
extern "C" __global__ void stochastic_rounding(const float* a, const unsigned short* random, unsigned short* out,
                                               int n) {
  INDEX;
  if (i < n) out[i] = (unsigned short)((__float_as_uint(a[i]) + random[i]) >> 16);
}

extern "C" __global__ void atomic_bfloat2(const __nv_bfloat162* in, __nv_bfloat162* out) {
  INDEX;
  atomicAdd(out, in[i]);
}

extern "C" __global__ void adamw_bfloat(__nv_bfloat16* p, const __nv_bfloat16* g, float* m, float* v, float rate,
                                        float beta1, float beta2, float epsilon, int n) {
  INDEX;
  if (i >= n) return;
  float gradient = __bfloat162float(g[i]);
  float m1 = m[i] = m[i] + (1.0f - beta1) * (gradient - m[i]);
  float v1 = v[i] = v[i] + (1.0f - beta2) * (gradient * gradient - v[i]);
  p[i] = __float2bfloat16(__bfloat162float(p[i]) - rate * m1 / (sqrtf(v1) + epsilon));
}
