// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/interp_value.h"

#include <algorithm>
#include <cmath>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stepfuse::ir {

// Every element of a product is one fma chain over ascending k that starts at +0. Blocks only change which chains
// advance together: between two blocks of k a chain rests, unrounded, in the result.

namespace {

constexpr int64_t kTileRows = 4;
constexpr int64_t kBlockDepth = 256;
template <class T>
constexpr int64_t kTileCols = 64 / static_cast<int64_t>(sizeof(T));

/// Advances a tile of chains by `depth` steps: tile[r][c] = fma(a[k][r], b[k][c], tile[r][c]) for k = 0, 1, ...
template <class T>
using TileFn = void (*)(const T* a, const T* b, int64_t depth, T* tile);

template <class T>
void advance_tile_portable(const T* a, const T* b, int64_t depth, T* tile) {
  constexpr int64_t kCols = kTileCols<T>;
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t r = 0; r < kTileRows; ++r)
      for (int64_t c = 0; c < kCols; ++c)
        tile[r * kCols + c] = std::fma(a[k * kTileRows + r], b[k * kCols + c], tile[r * kCols + c]);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void advance_tile_avx2(const float* a, const float* b, int64_t depth, float* tile) {
  __m256 sum[kTileRows][2];
  for (int64_t r = 0; r < kTileRows; ++r)
    for (int64_t h = 0; h < 2; ++h) sum[r][h] = _mm256_loadu_ps(tile + r * 16 + h * 8);
  for (int64_t k = 0; k < depth; ++k, a += kTileRows, b += 16) {
    const __m256 left = _mm256_loadu_ps(b), right = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kTileRows; ++r) {
      const __m256 factor = _mm256_broadcast_ss(a + r);
      sum[r][0] = _mm256_fmadd_ps(factor, left, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(factor, right, sum[r][1]);
    }
  }
  for (int64_t r = 0; r < kTileRows; ++r)
    for (int64_t h = 0; h < 2; ++h) _mm256_storeu_ps(tile + r * 16 + h * 8, sum[r][h]);
}

__attribute__((target("avx2,fma"))) void advance_tile_avx2(const double* a, const double* b, int64_t depth,
                                                           double* tile) {
  __m256d sum[kTileRows][2];
  for (int64_t r = 0; r < kTileRows; ++r)
    for (int64_t h = 0; h < 2; ++h) sum[r][h] = _mm256_loadu_pd(tile + r * 8 + h * 4);
  for (int64_t k = 0; k < depth; ++k, a += kTileRows, b += 8) {
    const __m256d left = _mm256_loadu_pd(b), right = _mm256_loadu_pd(b + 4);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kTileRows; ++r) {
      const __m256d factor = _mm256_broadcast_sd(a + r);
      sum[r][0] = _mm256_fmadd_pd(factor, left, sum[r][0]);
      sum[r][1] = _mm256_fmadd_pd(factor, right, sum[r][1]);
    }
  }
  for (int64_t r = 0; r < kTileRows; ++r)
    for (int64_t h = 0; h < 2; ++h) _mm256_storeu_pd(tile + r * 8 + h * 4, sum[r][h]);
}
#endif

template <class T>
TileFn<T> tile_function() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return advance_tile_avx2;
#endif
  return advance_tile_portable<T>;
}

/// A matrix operand, read as if transposed or not.
template <class T>
struct MatrixRef {
  const T* data;
  int64_t row_stride, col_stride;
  T at(int64_t row, int64_t col) const { return data[row * row_stride + col * col_stride]; }
};

template <class T>
MatrixRef<T> matrix_ref(const T* data, const Dims3& dims, int64_t batch, bool transpose) {
  const T* const matrix = data + (dims[0] == 1 ? 0 : batch) * dims[1] * dims[2];
  return transpose ? MatrixRef<T>{matrix, 1, dims[2]} : MatrixRef<T>{matrix, dims[2], 1};
}

/// Panels of `width` rows (or columns) by `depth`, k-major, padded with zeros: out[panel][k][i] = get(i, k).
template <class T, class Get>
void pack(std::vector<T>& out, int64_t extent, int64_t width, int64_t depth, Get get) {
  const int64_t panels = (extent + width - 1) / width;
  out.assign(static_cast<size_t>(panels * width * depth), T(0));
  for (int64_t i = 0; i < extent; ++i) {
    T* to = out.data() + i / width * width * depth + i % width;
    for (int64_t k = 0; k < depth; ++k) to[k * width] = get(i, k);
  }
}

template <class T>
struct Product {
  MatrixRef<T> a, b;
  int64_t rows, cols, depth;
  T* out;  // row-major, holds the chains

  void advance_block(const std::vector<T>& packed_a, const std::vector<T>& packed_b, int64_t block, TileFn<T> advance) {
    constexpr int64_t kCols = kTileCols<T>;
    std::array<T, static_cast<size_t>(kTileRows * kCols)> tile{};
    for (int64_t col = 0; col < cols; col += kCols) {
      const int64_t width = std::min(kCols, cols - col);
      for (int64_t row = 0; row < rows; row += kTileRows) {
        const int64_t height = std::min(kTileRows, rows - row);
        T* const corner = out + row * cols + col;
        for (int64_t r = 0; r < height; ++r) std::copy_n(corner + r * cols, width, tile.data() + r * kCols);
        advance(packed_a.data() + row * block, packed_b.data() + col * block, block, tile.data());
        for (int64_t r = 0; r < height; ++r) std::copy_n(tile.data() + r * kCols, width, corner + r * cols);
      }
    }
  }

  void run() {
    const TileFn<T> advance = tile_function<T>();
    std::vector<T> packed_a, packed_b;
    for (int64_t first = 0; first < depth; first += kBlockDepth) {
      const int64_t block = std::min(kBlockDepth, depth - first);
      pack(packed_a, rows, kTileRows, block, [&](int64_t i, int64_t k) { return a.at(i, first + k); });
      pack(packed_b, cols, kTileCols<T>, block, [&](int64_t j, int64_t k) { return b.at(first + k, j); });
      advance_block(packed_a, packed_b, block, advance);
    }
  }
};

/// alpha * r, then fma(beta, C, r).
template <class T>
void scale_and_add(const OpCall& call, std::vector<T>& out) {
  if (call.args.size() == 2) return;
  const bool has_c = call.args.size() == 5;
  const T alpha = Elements<T>(*call.args[has_c ? 3 : 2])[0];
  for (T& value : out) value = alpha * value;
  if (!has_c) return;
  const Elements<T> c(*call.args[2]);
  const T beta = Elements<T>(*call.args[4])[0];
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::fma(beta, c[i], out[i]);
}

template <class T>
void run(OpCall& call, Evaluation evaluation) {
  const auto& attr = std::get<MatmulAttr>(call.node.attr);
  const Elements<T> a(*call.args[0]);
  const Elements<T> b(*call.args[1]);
  const Dims3& dims = call.result.dims;
  const int64_t depth = call.args[0]->dims[attr.trans_a ? 1 : 2];
  std::vector<T> out(static_cast<size_t>(elements_of(dims)), T(0));
  for (int64_t batch = 0; batch < dims[0]; ++batch) {
    Product<T>{matrix_ref(a.data(), call.args[0]->dims, batch, attr.trans_a),
               matrix_ref(b.data(), call.args[1]->dims, batch, attr.trans_b),
               dims[1],
               dims[2],
               depth,
               out.data() + batch * dims[1] * dims[2]}
        .run();
  }
  scale_and_add(call, out);
  store(call.result, std::move(out), evaluation);
}

}  // namespace

void run_matmul(OpCall& call, Evaluation evaluation) {
  call.math == DType::F64 ? run<double>(call, evaluation) : run<float>(call, evaluation);
}

}  // namespace stepfuse::ir
