// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm_fma_chain.h"

#include <cstdint>

#include <immintrin.h>

// Everything below this line may use AVX-512; see gemm_fma_kernels.inc.
// GCC 12 warns of the undefined pass-through operands in its own <avx512fintrin.h> (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c")

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
  using V = __m512;
  static constexpr int kLanes = 16, kRows = 12;
  static V broadcast(float x) { return _mm512_set1_ps(x); }
  static V multiply(V a, V b) { return _mm512_mul_ps(a, b); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }

  static __m256i load_bits(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static V load(const Half* p) { return _mm512_cvtph_ps(load_bits(p)); }
  static V load(const Bf16* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_bits(p)), 16));
  }

  static void store_bits(void* p, __m256i bits) { _mm256_storeu_si256(static_cast<__m256i*>(p), bits); }
  static void store(float* p, V x) { _mm512_storeu_ps(p, x); }
  static void store(double* p, V x) {
    _mm512_storeu_pd(p, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
    _mm512_storeu_pd(p + 8, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
  }
  static void store(Half* p, V x) { store_bits(p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)); }
  static void store(Bf16* p, V x) {
    const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
    const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    store_bits(p, _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(is_nan, rounded, quiet)));
  }
};

struct VectorF64 {
  using T = double;
  using V = __m512d;
  static constexpr int kLanes = 8, kRows = 12;
  static V broadcast(double x) { return _mm512_set1_pd(x); }
  static V multiply(V a, V b) { return _mm512_mul_pd(a, b); }
  static V fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
  static V load(const double* p) { return _mm512_loadu_pd(p); }
  static V load(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
  static void store(double* p, V x) { _mm512_storeu_pd(p, x); }
  static void store(float* p, V x) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(x)); }
};

}  // namespace

#include "runtime/cpu/gemm_fma_kernels.inc"

const FmaKernels<float>& fma_kernels_avx512_f32() { return kKernelsF32; }
const FmaKernels<double>& fma_kernels_avx512_f64() { return kKernelsF64; }

}  // namespace stepfuse::runtime
