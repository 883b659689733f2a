// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/type.h"

#include <cstdint>

namespace stepfuse::runtime {

/// What happens to an accumulator: r = acc; r = alpha * r; r = fma(beta, C, r); D = round(r). T is the math type.
template <class T>
struct Finish {
  bool has_alpha = false, has_c = false;
  T alpha = 1, beta = 0;
  ir::DType c = ir::DType::F32, d = ir::DType::F32;
};

/// One side of a product as the kernel reads it: `lanes` rows of op(A) or columns of op(B), each `k` long.
struct PackSource {
  const void* data;
  ir::DType dtype;
  int64_t lane_stride, k_stride;  // in elements; one of them is 1
  int64_t lanes, k;
};

/// The compute kernels of one instruction set. A panel holds `rows` (left) or `columns` (right) lanes interleaved, k
/// after k, in the math type; lanes beyond the source's are zero. A tile is rows x columns accumulators.
template <class T>
struct FmaKernels {
  int rows, columns;
  /// tile[i][j] = fma(left[p][i], right[p][j], tile[i][j]) for ascending p.
  void (*multiply)(const T* left, const T* right, T* tile, int64_t k);
  void (*pack_left)(const PackSource& source, T* panel);
  void (*pack_right)(const PackSource& source, T* panel);
  void (*finish_row)(const T* acc, const void* c, void* d, int64_t n, const Finish<T>& finish);
};

/// Callable only where the CPU has AVX2, FMA and F16C, or AVX-512 as CpuTarget::avx512 means it.
const FmaKernels<float>& fma_kernels_avx2_f32();
const FmaKernels<double>& fma_kernels_avx2_f64();
const FmaKernels<float>& fma_kernels_avx512_f32();
const FmaKernels<double>& fma_kernels_avx512_f64();

}  // namespace stepfuse::runtime
