// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Every integer operator and intrinsic, one element per thread.

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

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
typedef unsigned short u16;
typedef unsigned char u8;
typedef signed char s8;

// Sums, products, quotients.
MAP2(add_u32, u32, u32, u32, x + y)
MAP2(sub_u64, u64, u64, u64, x - y)
MAP2(mul_u32, u32, u32, u32, x* y)
MAP2(mul_u64, u64, u64, u64, x* y)
MAP2(mul_wide_s32, s64, int, int, s64(x) * y)
MAP2(mul_wide_u32, u64, u32, u32, u64(x) * y)
MAP3(mad_u32, u32, u32, u32, u32, x* y + z)
MAP3(mad_wide_s32, s64, int, int, s64, s64(x) * y + z)
MAP2(div_u32, u32, u32, u32, x / (y | 1u))
MAP2(rem_u32, u32, u32, u32, x % (y | 1u))
MAP2(div_s32, int, int, int, (x >> 1) / (y | 1))
MAP2(rem_s32, int, int, int, (x >> 1) % (y | 1))
MAP2(div_u64, u64, u64, u64, x / (y | 1ull))
MAP2(rem_u64, u64, u64, u64, x % (y | 1ull))
MAP2(div_s64, s64, s64, s64, (x >> 1) / (y | 1))
MAP2(rem_s64, s64, s64, s64, (x >> 1) % (y | 1))
MAP1(div_by_constants, u32, u32, x / 7u + (x / 641u) * 3u + x / 1000000007u)
MAP1(div_by_constants_s32, int, int, x / 7 - x / -13 + x % 1000 + x / 8 - x % 16)
MAP1(div_by_constants_u64, u64, u64, x / 10u + (x / 1000000007ull) * 5u)
MAP2(div_u16, u16, u16, u16, u16(x / (y | 1)))
MAP2(div_s8, int, s8, s8, x / (y == 0 ? s8(3) : y))
MAP2(mulhi_s32, int, int, int, __mulhi(x, y))
MAP2(mulhi_u32, u32, u32, u32, __umulhi(x, y))
MAP2(mulhi_s64, s64, s64, s64, __mul64hi(x, y))
MAP2(mulhi_u64, u64, u64, u64, __umul64hi(x, y))
MAP2(mul24_s32, int, int, int, __mul24(x, y))
MAP2(mul24_u32, u32, u32, u32, __umul24(x, y))
MAP3(sad_s32, u32, int, int, u32, __sad(x, y, z))
MAP3(sad_u32, u32, u32, u32, u32, __usad(x, y, z))
MAP2(hadd_s32, int, int, int, __hadd(x, y))
MAP2(rhadd_s32, int, int, int, __rhadd(x, y))
MAP2(uhadd_u32, u32, u32, u32, __uhadd(x, y))
MAP2(urhadd_u32, u32, u32, u32, __urhadd(x, y))

// Order.
MAP2(min_s32, int, int, int, min(x, y))
MAP2(max_u32, u32, u32, u32, max(x, y))
MAP2(min_u64, u64, u64, u64, min(x, y))
MAP2(max_s64, s64, s64, s64, max(x, y))
MAP1(abs_s32, u32, int, u32(abs(x)))
MAP1(abs_s64, u64, s64, u64(llabs(x)))
MAP3(clamp_s32, int, int, int, int, min(max(x, min(y, z)), max(y, z)))
MAP2(compare_s32, int, int, int, (x < y) | (x <= y) << 1 | (x > y) << 2 | (x >= y) << 3 | (x == y) << 4 | (x != y) << 5)
MAP2(compare_u64, int, u64, u64, (x < y) | (x <= y) << 1 | (x > y) << 2 | (x >= y) << 3 | (x == y) << 4 | (x != y) << 5)
MAP3(select_s64, s64, s64, s64, int, z > 0 ? x : y)

// Bits.
MAP3(logic_u32, u32, u32, u32, u32, (x & y) ^ (~x | z))
MAP3(majority_u64, u64, u64, u64, u64, (x & y) | (y & z) | (x & z))
MAP2(shift_left_u32, u32, u32, u32, x << (y & 31))
MAP2(shift_right_s32, int, int, u32, x >> (y & 31))
MAP2(shift_right_u64, u64, u64, u32, x >> (y & 63))
MAP2(shift_right_s64, s64, s64, u32, x >> (y & 63))
MAP2(shift_u16, u16, u16, u32, u16((x << (y & 15)) | (x >> (16 - (y & 15)))))
MAP2(rotate_u32, u32, u32, u32, (x << (y & 31)) | (x >> (-y & 31)))
MAP2(rotate_u64, u64, u64, u32, (x << (y & 63)) | (x >> (-y & 63)))
MAP1(clz_u32, int, int, __clz(x))
MAP1(clz_u64, int, s64, __clzll(x))
MAP1(ffs_u32, int, int, __ffs(x))
MAP1(ffs_u64, int, s64, __ffsll(x))
MAP1(popc_u32, int, u32, __popc(x))
MAP1(popc_u64, int, u64, __popcll(x))
MAP1(brev_u32, u32, u32, __brev(x))
MAP1(brev_u64, u64, u64, __brevll(x))
MAP3(byte_perm, u32, u32, u32, u32, __byte_perm(x, y, z))
MAP1(byte_swap, u32, u32, __byte_perm(x, 0, 0x0123))
MAP3(funnel_left, u32, u32, u32, u32, __funnelshift_l(x, y, z))
MAP3(funnel_right, u32, u32, u32, u32, __funnelshift_r(x, y, z))
MAP3(funnel_left_clamp, u32, u32, u32, u32, __funnelshift_lc(x, y, z))
MAP3(funnel_right_clamp, u32, u32, u32, u32, __funnelshift_rc(x, y, z))
MAP2(bit_field_extract, u32, u32, u32, (x >> (y & 31)) & ((1u << ((y >> 5) & 15)) - 1))
MAP1(bit_field_signed, int, int, (x << 7) >> 20)

struct Fields {
  u32 low : 5;
  u32 middle : 11;
  int high : 16;
};

extern "C" __global__ void bit_field_struct(const u32* a, const u32* b, u32* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  union {
    u32 word;
    Fields fields;
  } value;
  value.word = a[i];
  value.fields.middle += b[i];
  value.fields.high -= value.fields.low;
  out[i] = value.word;
}

// Four and two lanes in one register.
MAP2(vadd4, u32, u32, u32, __vadd4(x, y))
MAP2(vsub2, u32, u32, u32, __vsub2(x, y))
MAP2(vmaxs2, u32, u32, u32, __vmaxs2(x, y))
MAP2(vminu4, u32, u32, u32, __vminu4(x, y))
MAP2(vcmpgtu4, u32, u32, u32, __vcmpgtu4(x, y))
MAP2(vavgu4, u32, u32, u32, __vavgu4(x, y))
MAP3(dot_bytes_s, int, int, int, int, __dp4a(x, y, z))
MAP3(dot_bytes_u, u32, u32, u32, u32, __dp4a(x, y, z))
MAP3(dot_pairs_s, int, int, int, int, __dp2a_lo(x, y, z) ^ __dp2a_hi(x, y, z))

// 128-bit sums and products as programs spell them.
extern "C" __global__ void add_128(const u64* a, const u64* b, u64* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u64 low = a[2 * i] + b[2 * i];
  u64 carry = low < a[2 * i];
  out[2 * i] = low;
  out[2 * i + 1] = a[2 * i + 1] + b[2 * i + 1] + carry;
}

extern "C" __global__ void add_carry_chain(const uint4* a, const uint4* b, uint4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint4 x = a[i], y = b[i], z;
  asm("add.cc.u32 %0, %4, %8;\n\t"
      "addc.cc.u32 %1, %5, %9;\n\t"
      "addc.cc.u32 %2, %6, %10;\n\t"
      "addc.u32 %3, %7, %11;"
      : "=r"(z.x), "=r"(z.y), "=r"(z.z), "=r"(z.w)
      : "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(y.x), "r"(y.y), "r"(y.z), "r"(y.w));
  out[i] = z;
}

extern "C" __global__ void mul_128(const u64* a, const u64* b, u64* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned __int128 product = (unsigned __int128)a[i] * b[i];
  out[2 * i] = u64(product);
  out[2 * i + 1] = u64(product >> 64);
}

extern "C" __global__ void power_modulo(const u64* base, const u32* exponent, u64* out, int n) {
  const u64 modulus = 4294967291ull;  // the largest prime below 2^32
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u64 result = 1, power = base[i] % modulus;
  for (u32 e = exponent[i]; e != 0; e >>= 1) {
    if (e & 1) result = result * power % modulus;
    power = power * power % modulus;
  }
  out[i] = result;
}

extern "C" __global__ void greatest_common_divisor(const u32* a, const u32* b, u32* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u32 x = a[i], y = b[i];
  while (y != 0) {
    u32 remainder = x % y;
    x = y;
    y = remainder;
  }
  out[i] = x;
}

extern "C" __global__ void integer_square_root(const u32* a, u32* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u32 value = a[i], root = 0;
  for (u32 bit = 1u << 30; bit != 0; bit >>= 2) {
    if (value >= root + bit) {
      value -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  out[i] = root;
}

extern "C" __global__ void morton_code(const u32* a, const u32* b, u64* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u64 coordinates[2] = {a[i], b[i]};
#pragma unroll
  for (int k = 0; k < 2; k++) {
    u64 v = coordinates[k];
    v = (v | v << 16) & 0x0000FFFF0000FFFFull;
    v = (v | v << 8) & 0x00FF00FF00FF00FFull;
    v = (v | v << 4) & 0x0F0F0F0F0F0F0F0Full;
    v = (v | v << 2) & 0x3333333333333333ull;
    v = (v | v << 1) & 0x5555555555555555ull;
    coordinates[k] = v;
  }
  out[i] = coordinates[0] | coordinates[1] << 1;
}
