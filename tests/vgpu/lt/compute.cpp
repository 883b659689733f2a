// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/compute.h"

#include "tests/vgpu/lt/float16.h"

#include <algorithm>
#include <cstring>

namespace stepfuse::vgpu::lt {
namespace {

// A tile of D is kTileRows x kTileCols sums, few enough for registers: a column is two vectors.
constexpr int64_t kVectorBytes = 32;
constexpr int64_t kVectors = 2;
constexpr int64_t kTileCols = 4;
template <class Real>
constexpr int64_t kTileRows = kVectors * kVectorBytes / static_cast<int64_t>(sizeof(Real));

template <class Real>
using Tile = Real[kTileCols][kTileRows<Real>];

/// One element as a number of the arithmetic's type.
template <class Real>
Real load(const void* base, cudaDataType type, int64_t index) {
  const auto i = static_cast<size_t>(index);
  if (type == CUDA_R_64F) return static_cast<Real>(static_cast<const double*>(base)[i]);
  if (type == CUDA_R_32F) return static_cast<Real>(static_cast<const float*>(base)[i]);
  const uint16_t bits = static_cast<const uint16_t*>(base)[i];
  return static_cast<Real>(type == CUDA_R_16F ? from_f16(bits) : from_bf16(bits));
}

template <class Real>
void store(void* base, cudaDataType type, int64_t index, Real value) {
  const auto i = static_cast<size_t>(index);
  if (type == CUDA_R_64F) {
    static_cast<double*>(base)[i] = static_cast<double>(value);
  } else if (type == CUDA_R_32F) {
    static_cast<float*>(base)[i] = static_cast<float>(value);
  } else {
    const auto single = static_cast<float>(value);
    static_cast<uint16_t*>(base)[i] = type == CUDA_R_16F ? to_f16(single) : to_bf16(single);
  }
}

/// Copies op(A), or op(B) transposed, into panels of `width` rows, each with K outside: the order in which the sums
/// read it. Rows that do not exist are zero; their sums are thrown away.
template <class Real>
std::vector<Real> packed(const void* base, cudaDataType type, int64_t rows, int64_t row_stride, int64_t k,
                         int64_t k_stride, int64_t width) {
  const int64_t panels = (rows + width - 1) / width;
  std::vector<Real> result(static_cast<size_t>(panels * width * k), Real{0});
  for (int64_t row = 0; row < rows; ++row) {
    Real* out = result.data() + (row / width) * width * k + row % width;
    for (int64_t index = 0; index < k; ++index) {
      out[index * width] = load<Real>(base, type, row * row_stride + index * k_stride);
    }
  }
  return result;
}

/// Adds the products of terms begin to end to `sums`, one after the other. Every product and every sum is rounded: no
/// machine contracts them, so all give the same bits.
template <class Real>
[[gnu::always_inline]] inline void add_products_here(Tile<Real>& sums, const Real* a, const Real* b, int64_t begin,
                                                     int64_t end) {
  // Copied vector by vector: after one memcpy over all the compiler would keep the sums in memory.
  using Vector [[gnu::vector_size(kVectorBytes)]] = Real;
  constexpr int64_t kLanes = kVectorBytes / static_cast<int64_t>(sizeof(Real));
  Vector local[kTileCols][kVectors];
  for (int64_t j = 0; j < kTileCols; ++j) {
    for (int64_t i = 0; i < kVectors; ++i) std::memcpy(&local[j][i], sums[j] + i * kLanes, sizeof(Vector));
  }
  for (int64_t index = begin; index < end; ++index) {
    const Real* row = b + index * kTileCols;
    for (int64_t i = 0; i < kVectors; ++i) {
      Vector column;
      std::memcpy(&column, a + index * kTileRows<Real> + i * kLanes, sizeof(column));
      for (int64_t j = 0; j < kTileCols; ++j) local[j][i] += column * row[j];
    }
  }
  for (int64_t j = 0; j < kTileCols; ++j) {
    for (int64_t i = 0; i < kVectors; ++i) std::memcpy(sums[j] + i * kLanes, &local[j][i], sizeof(Vector));
  }
}

#ifdef __x86_64__
/// Vectors of 32 bytes where the processor has them.
template <class Real>
[[gnu::target("avx2")]] void add_products_avx2(Tile<Real>& sums, const Real* a, const Real* b, int64_t begin,
                                               int64_t end) {
  add_products_here(sums, a, b, begin, end);
}
#endif

template <class Real>
void add_products(Tile<Real>& sums, const Real* a, const Real* b, int64_t begin, int64_t end) {
#ifdef __x86_64__
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return add_products_avx2(sums, a, b, begin, end);
#endif
  add_products_here(sums, a, b, begin, end);
}

template <class Real>
void sum_tile(Tile<Real>& total, const Real* a, const Real* b, int64_t k, const SumOrder& order) {
  std::memset(total, 0, sizeof(Tile<Real>));
  if (order.size() == 1) {
    add_products(total, a, b, 0, k);
    return;
  }
  for (const Segment& segment : order) {
    Tile<Real> part{};
    add_products(part, a, b, segment.begin, segment.end);
    for (int64_t j = 0; j < kTileCols; ++j) {
      for (int64_t i = 0; i < kTileRows<Real>; ++i) total[j][i] += part[j][i];
    }
  }
}

template <class Real>
void store_tile(const Problem& problem, const Operands& operands, const Tile<Real>& sums, int64_t row, int64_t col,
                Real alpha, Real beta) {
  const int64_t rows = std::min(kTileRows<Real>, problem.m - row);
  const int64_t cols = std::min(kTileCols, problem.n - col);
  const Matrix& c = problem.c;
  const Matrix& d = problem.d;
  for (int64_t j = 0; j < cols; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      Real value = alpha * sums[j][i];
      if (operands.c != nullptr) {
        value += beta * load<Real>(operands.c, c.type, (row + i) * c.row_stride + (col + j) * c.col_stride);
      }
      store<Real>(operands.d, d.type, (row + i) * d.row_stride + (col + j) * d.col_stride, value);
    }
  }
}

template <class Real>
void compute(const Problem& problem, const Operands& operands, Real alpha, Real beta, const SumOrder& order) {
  const Matrix& a = problem.a;
  const Matrix& b = problem.b;
  const int64_t k = problem.k;
  const std::vector<Real> left =
      packed<Real>(operands.a, a.type, problem.m, a.row_stride, k, a.col_stride, kTileRows<Real>);
  const std::vector<Real> right = packed<Real>(operands.b, b.type, problem.n, b.col_stride, k, b.row_stride, kTileCols);
  for (int64_t col = 0; col < problem.n; col += kTileCols) {
    for (int64_t row = 0; row < problem.m; row += kTileRows<Real>) {
      Tile<Real> sums;
      sum_tile(sums, left.data() + row * k, right.data() + col * k, k, order);
      store_tile(problem, operands, sums, row, col, alpha, beta);
    }
  }
}

}  // namespace

void compute_product(const Problem& problem, const Operands& operands, double alpha, double beta,
                     const SumOrder& order) {
  if (problem.is_f64()) {
    compute<double>(problem, operands, alpha, beta, order);
  } else {
    compute<float>(problem, operands, static_cast<float>(alpha), static_cast<float>(beta), order);
  }
}

}  // namespace stepfuse::vgpu::lt
