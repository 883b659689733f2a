// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Conversions among all types, and bits read as another type.

#define MAP1(name, R, A, expression)                           \
  extern "C" __global__ void name(const A* a, R* out, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x;             \
    if (i < n) {                                               \
      A x = a[i];                                              \
      out[i] = (expression);                                   \
    }                                                          \
  }

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
typedef unsigned short u16;
typedef unsigned char u8;
typedef signed char s8;

// To integers, out of range and NaN included: PTX saturates and makes zero of NaN.
MAP1(f32_to_s32_rz, int, float, __float2int_rz(x))
MAP1(f32_to_s32_rn, int, float, __float2int_rn(x))
MAP1(f32_to_s32_ru, int, float, __float2int_ru(x))
MAP1(f32_to_s32_rd, int, float, __float2int_rd(x))
MAP1(f32_to_u32_rz, u32, float, __float2uint_rz(x))
MAP1(f32_to_u32_rn, u32, float, __float2uint_rn(x))
MAP1(f32_to_s64_rz, s64, float, __float2ll_rz(x))
MAP1(f32_to_u64_rd, u64, float, __float2ull_rd(x))
MAP1(f64_to_s32_rz, int, double, __double2int_rz(x))
MAP1(f64_to_s32_rn, int, double, __double2int_rn(x))
MAP1(f64_to_u32_ru, u32, double, __double2uint_ru(x))
MAP1(f64_to_s64_rn, s64, double, __double2ll_rn(x))
MAP1(f64_to_u64_rz, u64, double, __double2ull_rz(x))

// From integers.
MAP1(s32_to_f32_rn, float, int, __int2float_rn(x))
MAP1(s32_to_f32_rz, float, int, __int2float_rz(x))
MAP1(s32_to_f32_ru, float, int, __int2float_ru(x))
MAP1(u32_to_f32_rd, float, u32, __uint2float_rd(x))
MAP1(s64_to_f32_rn, float, s64, __ll2float_rn(x))
MAP1(u64_to_f32_ru, float, u64, __ull2float_ru(x))
MAP1(s64_to_f64_rn, double, s64, __ll2double_rn(x))
MAP1(s64_to_f64_rz, double, s64, __ll2double_rz(x))
MAP1(u64_to_f64_rd, double, u64, __ull2double_rd(x))
MAP1(s32_to_f64, double, int, __int2double_rn(x))
MAP1(u8_to_f32, float, u8, float(x))
MAP1(s8_to_f64, double, s8, double(x))
MAP1(s16_to_f32, float, short, float(x))

// Between the floating-point types.
MAP1(f64_to_f32_rn, float, double, __double2float_rn(x))
MAP1(f64_to_f32_rz, float, double, __double2float_rz(x))
MAP1(f64_to_f32_ru, float, double, __double2float_ru(x))
MAP1(f64_to_f32_rd, float, double, __double2float_rd(x))
MAP1(f32_to_f64, double, float, double(x))

// Between integers of different width and sign.
MAP1(narrow_u64_to_u8, u8, u64, u8(x))
MAP1(narrow_s32_to_s8, int, int, s8(x))
MAP1(narrow_s64_to_s16, int, s64, short(x))
MAP1(widen_s8_to_s64, s64, s8, s64(x))
MAP1(widen_s8_to_u32, u32, s8, u32(x))
MAP1(widen_u16_to_s64, s64, u16, s64(x))
MAP1(widen_s32_to_u64, u64, int, u64(x))
MAP1(saturate_s32_to_s8, s8, int, s8(min(max(x, -128), 127)))
MAP1(saturate_s32_to_u8, u8, int, u8(min(max(x, 0), 255)))
MAP1(saturate_f32, float, float, __saturatef(x))

// Bits read as another type.
MAP1(f32_as_s32, int, float, __float_as_int(x))
MAP1(u32_as_f32, float, u32, __uint_as_float(x))
MAP1(f64_as_s64, s64, double, __double_as_longlong(x))
MAP1(s64_as_f64, double, s64, __longlong_as_double(x))
MAP1(f64_words, s64, double, s64(__double2hiint(x)) * 4294967296ll + u32(__double2loint(x)))
MAP1(f64_from_words, double, u64, __hiloint2double(int(x >> 32), int(u32(x))))

// cvt.sat and the conversions that the language reaches only through assembly.
extern "C" __global__ void saturating_cvt(const int* a, u32* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u32 low, high;
  asm("{\n\t"
      ".reg .u8 narrow;\n\t"
      "cvt.sat.u8.s32 narrow, %1;\n\t"
      "cvt.u32.u8 %0, narrow;\n\t"
      "}"
      : "=r"(low)
      : "r"(a[i]));
  asm("{\n\t"
      ".reg .s16 narrow;\n\t"
      "cvt.sat.s16.s32 narrow, %1;\n\t"
      "cvt.u32.u16 %0, narrow;\n\t"
      "}"
      : "=r"(high)
      : "r"(a[i]));
  out[i] = low | high << 16;
}

extern "C" __global__ void half_through_assembly(const float* a, u16* out, float* back, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(a[i]));
  out[i] = bits;
  asm("cvt.f32.f16 %0, %1;" : "=f"(back[i]) : "h"(bits));
}

extern "C" __global__ void bits_in_union(const u64* a, u64* out, int n) {
  union Words {
    u64 whole;
    u32 words[2];
    u16 halves[4];
    u8 bytes[8];
  };
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Words value;
  value.whole = a[i];
  value.bytes[i & 7] ^= 0x5A;
  value.halves[(i >> 3) & 3] += 1;
  value.words[(i >> 5) & 1] *= 3;
  out[i] = value.whole;
}
