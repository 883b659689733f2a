// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/hand_loops.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <immintrin.h>

namespace stepfuse::bench {

namespace {

[[gnu::target("avx512f")]] void adamw_avx512(const AdamTensors& t, const AdamScalars& s, int64_t begin, int64_t end) {
  const __m512 decay = _mm512_set1_ps(s.decay), one_minus_beta1 = _mm512_set1_ps(s.one_minus_beta1),
               beta2 = _mm512_set1_ps(s.beta2), one_minus_beta2 = _mm512_set1_ps(s.one_minus_beta2),
               step_size = _mm512_set1_ps(s.step_size), correction = _mm512_set1_ps(s.correction),
               eps = _mm512_set1_ps(s.eps);
  for (int64_t i = begin; i < end; i += 16) {
    const __m512 g = _mm512_loadu_ps(t.grad + i);
    __m512 p = _mm512_mul_ps(_mm512_loadu_ps(t.param + i), decay);
    __m512 m = _mm512_loadu_ps(t.exp_avg + i);
    __m512 v = _mm512_mul_ps(_mm512_loadu_ps(t.exp_avg_sq + i), beta2);
    m = _mm512_fmadd_ps(one_minus_beta1, _mm512_sub_ps(g, m), m);
    v = _mm512_fmadd_ps(_mm512_mul_ps(one_minus_beta2, g), g, v);
    const __m512 denominator = _mm512_add_ps(_mm512_div_ps(_mm512_maskz_sqrt_ps(0xffff, v), correction), eps);
    p = _mm512_add_ps(p, _mm512_div_ps(_mm512_mul_ps(step_size, m), denominator));
    _mm512_storeu_ps(t.param + i, p);
    _mm512_storeu_ps(t.exp_avg + i, m);
    _mm512_storeu_ps(t.exp_avg_sq + i, v);
  }
}

[[gnu::target("avx2,fma")]] void adamw_avx2(const AdamTensors& t, const AdamScalars& s, int64_t begin, int64_t end) {
  const __m256 decay = _mm256_set1_ps(s.decay), one_minus_beta1 = _mm256_set1_ps(s.one_minus_beta1),
               beta2 = _mm256_set1_ps(s.beta2), one_minus_beta2 = _mm256_set1_ps(s.one_minus_beta2),
               step_size = _mm256_set1_ps(s.step_size), correction = _mm256_set1_ps(s.correction),
               eps = _mm256_set1_ps(s.eps);
  for (int64_t i = begin; i < end; i += 8) {
    const __m256 g = _mm256_loadu_ps(t.grad + i);
    __m256 p = _mm256_mul_ps(_mm256_loadu_ps(t.param + i), decay);
    __m256 m = _mm256_loadu_ps(t.exp_avg + i);
    __m256 v = _mm256_mul_ps(_mm256_loadu_ps(t.exp_avg_sq + i), beta2);
    m = _mm256_fmadd_ps(one_minus_beta1, _mm256_sub_ps(g, m), m);
    v = _mm256_fmadd_ps(_mm256_mul_ps(one_minus_beta2, g), g, v);
    const __m256 denominator = _mm256_add_ps(_mm256_div_ps(_mm256_sqrt_ps(v), correction), eps);
    p = _mm256_add_ps(p, _mm256_div_ps(_mm256_mul_ps(step_size, m), denominator));
    _mm256_storeu_ps(t.param + i, p);
    _mm256_storeu_ps(t.exp_avg + i, m);
    _mm256_storeu_ps(t.exp_avg_sq + i, v);
  }
}

// The compiler may not know that the sums change nothing: -0 + 0 is +0.
[[gnu::target("avx512f")]] void probe_avx512(const AdamTensors& t, const AdamScalars&, int64_t begin, int64_t end) {
  const __m512 zero = _mm512_setzero_ps();
  for (int64_t i = begin; i < end; i += 16) {
    const __m512 g = _mm512_loadu_ps(t.grad + i);
    _mm512_storeu_ps(t.param + i, _mm512_add_ps(_mm512_loadu_ps(t.param + i), zero));
    _mm512_storeu_ps(t.exp_avg + i, _mm512_fmadd_ps(g, zero, _mm512_loadu_ps(t.exp_avg + i)));
    _mm512_storeu_ps(t.exp_avg_sq + i, _mm512_add_ps(_mm512_loadu_ps(t.exp_avg_sq + i), zero));
  }
}

[[gnu::target("avx2,fma")]] void probe_avx2(const AdamTensors& t, const AdamScalars&, int64_t begin, int64_t end) {
  const __m256 zero = _mm256_setzero_ps();
  for (int64_t i = begin; i < end; i += 8) {
    const __m256 g = _mm256_loadu_ps(t.grad + i);
    _mm256_storeu_ps(t.param + i, _mm256_add_ps(_mm256_loadu_ps(t.param + i), zero));
    _mm256_storeu_ps(t.exp_avg + i, _mm256_fmadd_ps(g, zero, _mm256_loadu_ps(t.exp_avg + i)));
    _mm256_storeu_ps(t.exp_avg_sq + i, _mm256_add_ps(_mm256_loadu_ps(t.exp_avg_sq + i), zero));
  }
}

AdamLoop choose(AdamLoop avx512, AdamLoop avx2) {
  if (__builtin_cpu_supports("avx512f")) return avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2;
  std::fputs("this benchmark needs a CPU with AVX2 and FMA\n", stderr);
  std::exit(2);
}

}  // namespace

AdamScalars adam_scalars(double lr, double weight_decay, double beta1, double beta2, double eps, int64_t step) {
  const auto t = static_cast<double>(step);
  return {static_cast<float>(1 - lr * weight_decay),
          static_cast<float>(1 - beta1),
          static_cast<float>(beta2),
          static_cast<float>(1 - beta2),
          static_cast<float>(-lr / (1 - std::pow(beta1, t))),
          static_cast<float>(std::sqrt(1 - std::pow(beta2, t))),
          static_cast<float>(eps)};
}

AdamLoop hand_adamw() { return choose(adamw_avx512, adamw_avx2); }
AdamLoop bandwidth_probe() { return choose(probe_avx512, probe_avx2); }

}  // namespace stepfuse::bench
