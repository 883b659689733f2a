// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm_fma_chain.h"

#include "runtime/cpu/gemm_providers.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

namespace stepfuse::runtime {

namespace {

// One piece of D. Its accumulators, a slice of the left operand's rows and one of the right operand's columns together
// stay within a core's second-level cache, and a right panel of kDepth within its first.
constexpr int64_t kPieceRows = 192, kPieceColumns = 384, kDepth = 256;

int64_t round_up(int64_t x, int64_t granule) { return (x + granule - 1) / granule * granule; }

const std::byte* offset(const void* base, int64_t elements, ir::DType dtype) {
  return static_cast<const std::byte*>(base) + elements * ir::dtype_bytes(dtype);
}

/// Every element of D is one chain of fused multiply-adds over ascending k, so neither the instruction set nor the
/// blocking shows in the result: the depth loop leaves partial accumulators in memory, in the math type, and goes on.
template <class T>
class FmaChainGemm final : public Gemm {
 public:
  FmaChainGemm(const GemmShape& shape, const FmaKernels<T>& kernels, std::string_view implementation)
      : shape_(shape),
        kernels_(kernels),
        implementation_(implementation),
        row_pieces_(static_cast<int>(round_up(shape.m, kPieceRows) / kPieceRows)),
        column_pieces_(static_cast<int>(round_up(shape.n, kPieceColumns) / kPieceColumns)),
        padded_rows_(round_up(std::min(shape.m, kPieceRows), kernels.rows)),
        padded_columns_(round_up(std::min(shape.n, kPieceColumns), kernels.columns)),
        depth_(std::min(shape.k, kDepth)) {}

  int pieces() const override { return row_pieces_ * column_pieces_; }

  size_t scratch_bytes() const override {
    return static_cast<size_t>(tile_elements() + depth_ * (padded_rows_ + padded_columns_)) * sizeof(T);
  }

  std::string_view implementation() const override { return implementation_; }

  void run(const GemmArgs& args, int piece, void* scratch) const override {
    const Range rows = split_range(shape_.m, piece / column_pieces_, row_pieces_, kernels_.rows);
    const Range columns = split_range(shape_.n, piece % column_pieces_, column_pieces_, kernels_.columns);
    T* tiles = static_cast<T*>(scratch);
    T* right = tiles + tile_elements();
    T* left = right + depth_ * padded_columns_;
    std::fill_n(tiles, tile_elements(), T{0});
    for (int64_t k = 0; k < shape_.k; k += kDepth) {
      const int64_t depth = std::min(kDepth, shape_.k - k);
      pack_left(args.a, rows, k, depth, left);
      pack_right(args.b, columns, k, depth, right);
      multiply(rows.size(), columns.size(), left, right, tiles, depth);
    }
    finish(args, rows, columns, tiles);
  }

 private:
  int64_t tile_elements() const { return padded_rows_ * padded_columns_; }

  /// Tiles lie column of tiles after column of tiles, as multiply() visits them.
  T* tile(T* tiles, int64_t row, int64_t column) const {
    return tiles + column * padded_rows_ + row * kernels_.columns;
  }

  void pack_left(const void* a, Range rows, int64_t k, int64_t depth, T* out) const {
    const int64_t lane_stride = shape_.trans_a ? 1 : shape_.lda, k_stride = shape_.trans_a ? shape_.lda : 1;
    for (int64_t i = rows.begin; i < rows.end; i += kernels_.rows, out += kernels_.rows * depth) {
      const int64_t lanes = std::min<int64_t>(kernels_.rows, rows.end - i);
      kernels_.pack_left(
          {offset(a, i * lane_stride + k * k_stride, shape_.ab), shape_.ab, lane_stride, k_stride, lanes, depth}, out);
    }
  }

  void pack_right(const void* b, Range columns, int64_t k, int64_t depth, T* out) const {
    const int64_t lane_stride = shape_.trans_b ? shape_.ldb : 1, k_stride = shape_.trans_b ? 1 : shape_.ldb;
    for (int64_t j = columns.begin; j < columns.end; j += kernels_.columns, out += kernels_.columns * depth) {
      const int64_t lanes = std::min<int64_t>(kernels_.columns, columns.end - j);
      kernels_.pack_right(
          {offset(b, j * lane_stride + k * k_stride, shape_.ab), shape_.ab, lane_stride, k_stride, lanes, depth}, out);
    }
  }

  void multiply(int64_t rows, int64_t columns, const T* left, const T* right, T* tiles, int64_t depth) const {
    for (int64_t j = 0; j < columns; j += kernels_.columns)
      for (int64_t i = 0; i < rows; i += kernels_.rows)
        kernels_.multiply(left + i * depth, right + j * depth, tile(tiles, i, j), depth);
  }

  void finish(const GemmArgs& args, Range rows, Range columns, T* tiles) const {
    const Finish<T> last{shape_.has_alpha,          shape_.has_c, static_cast<T>(args.alpha),
                         static_cast<T>(args.beta), shape_.c,     shape_.d};
    for (int64_t i = 0; i < rows.size(); ++i) {
      const int64_t tile_row = i / kernels_.rows * kernels_.rows, row_in_tile = i - tile_row;
      for (int64_t j = 0; j < columns.size(); j += kernels_.columns) {
        const int64_t n = std::min<int64_t>(kernels_.columns, columns.size() - j);
        const int64_t row = rows.begin + i, column = columns.begin + j;
        const void* c = shape_.has_c ? offset(args.c, row * shape_.ldc + column, shape_.c) : nullptr;
        auto* d = static_cast<std::byte*>(args.d) + (row * shape_.ldd + column) * ir::dtype_bytes(shape_.d);
        kernels_.finish_row(tile(tiles, tile_row, j) + row_in_tile * kernels_.columns, c, d, n, last);
      }
    }
  }

  const GemmShape shape_;
  const FmaKernels<T>& kernels_;
  const std::string_view implementation_;
  const int row_pieces_, column_pieces_;
  const int64_t padded_rows_, padded_columns_, depth_;
};

class FmaChainProvider final : public GemmProvider {
 public:
  explicit FmaChainProvider(bool avx512) : avx512_(avx512) {}

  std::string_view name() const override { return "fma-chain"; }

  Result<std::unique_ptr<Gemm>> prepare(const GemmShape& shape) const override {
    STEPFUSE_TRY(check_gemm_shape(shape));
    if (!has_types(shape)) return nullptr;
    const std::string_view implementation = avx512_ ? "fma-chain avx512" : "fma-chain avx2";
    if (ir::math_dtype(shape.ab) == ir::DType::F64)
      return std::make_unique<FmaChainGemm<double>>(shape, avx512_ ? fma_kernels_avx512_f64() : fma_kernels_avx2_f64(),
                                                    implementation);
    return std::make_unique<FmaChainGemm<float>>(shape, avx512_ ? fma_kernels_avx512_f32() : fma_kernels_avx2_f32(),
                                                 implementation);
  }

 private:
  /// C must widen exactly to the math type, and D must be one rounding away from it.
  static bool has_types(const GemmShape& shape) {
    const auto wide = [](ir::DType dtype) { return dtype == ir::DType::F32 || dtype == ir::DType::F64; };
    const bool c_is_f64 = shape.has_c && shape.c == ir::DType::F64;
    if (shape.ab == ir::DType::Bool || shape.d == ir::DType::Bool) return false;
    if (shape.has_c && shape.c == ir::DType::Bool) return false;
    if (shape.ab == ir::DType::F64) return wide(shape.d) && (!shape.has_c || wide(shape.c));
    return !c_is_f64;
  }

  const bool avx512_;
};

}  // namespace

Result<std::unique_ptr<GemmProvider>> make_fma_chain_provider(const CpuTarget& host) {
  std::string missing;
  for (const auto& [name, present] : {std::pair{"AVX2", host.avx2}, {"FMA", host.fma}, {"F16C", host.f16c}})
    if (!present) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
  if (missing.empty()) return std::make_unique<FmaChainProvider>(host.avx512);
  return with_hint(fail(StatusCode::Environment, "this CPU lacks {}, which strict products need", missing),
                   "use numerics mode 'default', or a machine with these instructions");
}

}  // namespace stepfuse::runtime
