// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm_fma_chain.h"

#include <cstdint>

#include <immintrin.h>

// Everything below this line may use AVX2, FMA and F16C; see gemm_fma_kernels.inc.
#pragma GCC target("avx2,fma,f16c")

namespace stepfuse::runtime {

namespace {

// Storage types that are no arithmetic types. Widening is exact; narrowing rounds once to nearest even and keeps NaN a
// NaN.
struct Bf16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

struct VectorF32 {
  using T = float;
  using V = __m256;
  static constexpr int kLanes = 8, kRows = 6;
  static V broadcast(float x) { return _mm256_set1_ps(x); }
  static V multiply(V a, V b) { return _mm256_mul_ps(a, b); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }

  static __m128i load_bits(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static V load(const float* p) { return _mm256_loadu_ps(p); }
  static V load(const Half* p) { return _mm256_cvtph_ps(load_bits(p)); }
  static V load(const Bf16* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_bits(p)), 16));
  }

  static void store_bits(void* p, __m128i bits) { _mm_storeu_si128(static_cast<__m128i*>(p), bits); }
  static void store(float* p, V x) { _mm256_storeu_ps(p, x); }
  static void store(double* p, V x) {
    _mm256_storeu_pd(p, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    _mm256_storeu_pd(p + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
  }
  static void store(Half* p, V x) { store_bits(p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)); }
  static void store(Bf16* p, V x) {
    const __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i words = _mm256_blendv_epi8(rounded, quiet, is_nan);
    store_bits(p, _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
};

struct VectorF64 {
  using T = double;
  using V = __m256d;
  static constexpr int kLanes = 4, kRows = 6;
  static V broadcast(double x) { return _mm256_set1_pd(x); }
  static V multiply(V a, V b) { return _mm256_mul_pd(a, b); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static V load(const double* p) { return _mm256_loadu_pd(p); }
  static V load(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
  static void store(double* p, V x) { _mm256_storeu_pd(p, x); }
  static void store(float* p, V x) { _mm_storeu_ps(p, _mm256_cvtpd_ps(x)); }
};

}  // namespace

#include "runtime/cpu/gemm_fma_kernels.inc"

const FmaKernels<float>& fma_kernels_avx2_f32() { return kKernelsF32; }
const FmaKernels<double>& fma_kernels_avx2_f64() { return kKernelsF64; }

}  // namespace stepfuse::runtime
