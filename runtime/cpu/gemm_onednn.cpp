// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm_fma_chain.h"
#include "runtime/cpu/gemm_providers.h"
#include "runtime/cpu/omp_guard.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <dnnl.hpp>

namespace stepfuse::runtime {

namespace {

// A tile's f32 result stays in the second-level cache until finish_row reads it. Tiles of this size run as fast as
// whole products, on AMX within a tenth of oneDNN's own bf16 output.
constexpr int64_t kTileRows = 192, kTileColumns = 384, kTileElements = kTileRows * 3072, kGranule = 32;
constexpr size_t kAlignment = 64;

constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// A plain product of one tile's extents, without scalars: in oneDNN 2.6 those are either fixed at creation, which
/// takes milliseconds, or cost AMX or 10 to 20 % as post-ops. Ours come after it, see finish_row.
struct TileProduct {
  int64_t rows, columns;
  dnnl::matmul primitive;
  dnnl_memory_desc_t a, b, d, scratchpad;
};

struct Tile {
  Range rows, columns;
  size_t product;  // index of the TileProduct
};

dnnl::memory::data_type data_type(ir::DType dtype) {
  return dtype == ir::DType::BF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc matrix(int64_t rows, int64_t columns, ir::DType dtype, int64_t stride, bool transposed) {
  const auto strides = transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, columns}, data_type(dtype), strides};
}

/// The memory objects of one call, made and dropped through the C interface, which allocates inside the library only.
class CallArguments {
 public:
  CallArguments() = default;
  ~CallArguments() {
    for (size_t i = 0; i < count_; ++i) dnnl_memory_destroy(arguments_[i].memory);
  }
  CallArguments(const CallArguments&) = delete;
  CallArguments& operator=(const CallArguments&) = delete;

  void add(int argument, const dnnl_memory_desc_t& desc, dnnl_engine_t engine, void* data) {
    dnnl_memory_t memory = nullptr;
    const dnnl_status_t status = dnnl_memory_create(&memory, &desc, engine, data);
    STEPFUSE_CHECK(status == dnnl_success, "oneDNN refuses a memory object: status {}", static_cast<int>(status));
    arguments_[count_++] = {argument, memory};
  }

  void execute(const dnnl::matmul& primitive, const dnnl::stream& stream) const {
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(count_), arguments_.data());
    STEPFUSE_CHECK(status == dnnl_success, "oneDNN refuses a product: status {}", static_cast<int>(status));
  }

 private:
  std::array<dnnl_exec_arg_t, 4> arguments_{};
  size_t count_ = 0;
};

/// A A and A^T A^T of a symmetric A are A A^T, the form whose tiles need no copy.
GemmShape preferred_form(GemmShape shape) {
  if (!shape.symmetric || !shape.a_is_b || shape.trans_a != shape.trans_b) return shape;
  shape.trans_a = false;
  shape.trans_b = true;
  return shape;
}

/// oneDNN 2.6 leaves the matrix units for any operand with a gap between its rows. Columns of op(B) can be had without
/// one only where they are rows in memory.
bool has_column_tiles(const GemmShape& shape) { return shape.trans_b; }

/// The tiles that cover D, or what a symmetric D needs on and below its diagonal.
std::vector<Tile> make_tiles(const GemmShape& shape) {
  const auto parts = [](int64_t extent, int64_t tile) { return static_cast<int>((extent + tile - 1) / tile); };
  const int column_parts = has_column_tiles(shape) ? parts(shape.n, kTileColumns) : 1;
  const int64_t full_rows = kTileElements / std::max(shape.n, kTileElements / kTileRows) / kGranule * kGranule;
  const int row_parts = parts(shape.m, column_parts > 1 ? kTileRows : std::max(kGranule, full_rows));
  std::vector<Tile> tiles;
  for (int i = 0; i < row_parts; ++i) {
    const Range rows = split_range(shape.m, i, row_parts, kGranule);
    for (int j = 0; j < column_parts; ++j) {
      Range columns = split_range(shape.n, j, column_parts, kGranule);
      if (shape.symmetric && has_column_tiles(shape)) columns.end = std::min(columns.end, rows.end);
      if (rows.size() > 0 && columns.size() > 0) tiles.push_back({rows, columns, 0});
    }
  }
  return tiles;
}

class OneDnnGemm final : public Gemm {
 public:
  OneDnnGemm(const GemmShape& shape, dnnl::engine engine)
      : shape_(preferred_form(shape)),
        tiles_(make_tiles(shape_)),
        direct_(!shape.has_alpha && !shape.has_c && !shape.symmetric && !has_column_tiles(shape_) &&
                shape.ldd == shape.n),
        pack_a_(shape_.trans_a ? shape_.lda != shape_.m || tiles_.size() > 1 : shape_.lda != shape_.k),
        engine_(std::move(engine)),
        stream_(engine_) {
    for (Tile& tile : tiles_) tile.product = product_for(tile.rows.size(), tile.columns.size());
  }

  int pieces() const override { return static_cast<int>(tiles_.size()); }
  std::string_view implementation() const override { return implementation_; }
  size_t scratch_bytes() const override { return result_bytes_ + packed_bytes_ + scratchpad_bytes_; }

  void run(const GemmArgs& args, int piece, void* scratch) const override {
    const OmpSingleThread single;
    const Tile& tile = tiles_[static_cast<size_t>(piece)];
    auto* packed = static_cast<std::byte*>(scratch) + result_bytes_;
    const auto* a = static_cast<const uint16_t*>(args.a) + tile.rows.begin * (shape_.trans_a ? 1 : shape_.lda);
    if (pack_a_) a = pack(a, tile.rows.size(), reinterpret_cast<uint16_t*>(packed));
    void* result = direct_ ? element(args.d, tile.rows.begin, 0) : scratch;
    multiply(a, args.b, tile, result, packed + packed_bytes_);
    if (!direct_) finish(args, tile, static_cast<const float*>(scratch));
    if (shape_.symmetric) mirror(args.d, tile);
  }

  /// "brg:avx512_core_amx_bf16", say, of the first tile whose implementation does not use bf16 units; else empty.
  const std::string& misfit() const { return misfit_; }

 private:
  size_t product_for(int64_t rows, int64_t columns) {
    for (size_t i = 0; i < products_.size(); ++i)
      if (products_[i].rows == rows && products_[i].columns == columns) return i;
    products_.push_back(make_product(rows, columns));
    return products_.size() - 1;
  }

  TileProduct make_product(int64_t rows, int64_t columns) {
    const auto a = matrix(rows, shape_.k, shape_.ab, shape_.trans_a ? rows : shape_.k, shape_.trans_a);
    const auto b = matrix(shape_.k, columns, shape_.ab, shape_.ldb, shape_.trans_b);
    const auto d = direct_ ? matrix(rows, columns, shape_.d, shape_.ldd, false)
                           : matrix(rows, columns, ir::DType::F32, columns, false);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, d), attributes, engine_);
    const std::string implementation = description.impl_info_str();
    if (!implementation.starts_with("brg") || implementation.find("bf16") == std::string::npos)
      misfit_ = implementation;
    implementation_ = "onednn " + implementation;
    const auto scratchpad = description.scratchpad_desc();
    if (!direct_) result_bytes_ = std::max(result_bytes_, aligned(static_cast<size_t>(rows * columns) * sizeof(float)));
    if (pack_a_) packed_bytes_ = std::max(packed_bytes_, aligned(static_cast<size_t>(rows * shape_.k) * 2));
    scratchpad_bytes_ = std::max(scratchpad_bytes_, aligned(scratchpad.get_size()));
    return {rows, columns, dnnl::matmul(description), a.data, b.data, d.data, scratchpad.data};
  }

  /// Copies a tile's part of A, rows of it or columns, without gaps.
  const uint16_t* pack(const uint16_t* a, int64_t rows, uint16_t* out) const {
    const int64_t lines = shape_.trans_a ? shape_.k : rows, width = shape_.trans_a ? rows : shape_.k;
    for (int64_t i = 0; i < lines; ++i)
      std::memcpy(out + i * width, a + i * shape_.lda, static_cast<size_t>(width) * sizeof(uint16_t));
    return out;
  }

  void multiply(const uint16_t* a, const void* all_of_b, const Tile& tile, void* result, void* scratchpad) const {
    const TileProduct& product = products_[tile.product];
    const auto* b = static_cast<const uint16_t*>(all_of_b) + tile.columns.begin * shape_.ldb;  // 0 without column tiles
    CallArguments call;
    call.add(DNNL_ARG_SRC, product.a, engine_.get(), const_cast<uint16_t*>(a));
    call.add(DNNL_ARG_WEIGHTS, product.b, engine_.get(), const_cast<uint16_t*>(b));
    call.add(DNNL_ARG_DST, product.d, engine_.get(), result);
    call.add(DNNL_ARG_SCRATCHPAD, product.scratchpad, engine_.get(), scratchpad);
    call.execute(product.primitive, stream_);
  }

  void* element(void* d, int64_t row, int64_t column) const {
    return static_cast<std::byte*>(d) + (row * shape_.ldd + column) * ir::dtype_bytes(shape_.d);
  }

  /// Of a symmetric tile only what is on or below the diagonal: the rest of C may already be another piece's D.
  void finish(const GemmArgs& args, const Tile& tile, const float* result) const {
    const Finish<float> last{
        shape_.has_alpha, shape_.has_c, static_cast<float>(args.alpha), static_cast<float>(args.beta),
        shape_.c,         shape_.d};
    const FmaKernels<float>& kernels = fma_kernels_avx512_f32();
    for (int64_t i = tile.rows.begin; i < tile.rows.end; ++i, result += tile.columns.size()) {
      const int64_t end = shape_.symmetric ? std::min(tile.columns.end, i + 1) : tile.columns.end;
      const int64_t c_offset = (i * shape_.ldc + tile.columns.begin) * ir::dtype_bytes(shape_.c);
      const void* c = shape_.has_c ? static_cast<const std::byte*>(args.c) + c_offset : nullptr;
      kernels.finish_row(result, c, element(args.d, i, tile.columns.begin), end - tile.columns.begin, last);
    }
  }

  void mirror(void* d, const Tile& tile) const {
    if (shape_.d == ir::DType::BF16) return mirror_elements(static_cast<uint16_t*>(d), tile);
    mirror_elements(static_cast<uint32_t*>(d), tile);
  }

  template <class Bits>
  void mirror_elements(Bits* d, const Tile& tile) const {
    constexpr int64_t kBlock = 32;
    for (int64_t i0 = tile.rows.begin; i0 < tile.rows.end; i0 += kBlock) {
      const int64_t i1 = std::min(i0 + kBlock, tile.rows.end);
      for (int64_t j = tile.columns.begin; j < std::min(tile.columns.end, i1); ++j)
        for (int64_t i = std::max(i0, j + 1); i < i1; ++i) d[j * shape_.ldd + i] = d[i * shape_.ldd + j];
    }
  }

  const GemmShape shape_;
  std::vector<Tile> tiles_;
  const bool direct_;  // the product is D as it is
  const bool pack_a_;  // a tile's part of A has gaps
  const dnnl::engine engine_;
  const dnnl::stream stream_;
  std::vector<TileProduct> products_;
  std::string implementation_, misfit_;
  size_t result_bytes_ = 0, packed_bytes_ = 0, scratchpad_bytes_ = 0;
};

class OneDnnProvider final : public GemmProvider {
 public:
  OneDnnProvider() : engine_(dnnl::engine::kind::cpu, 0) {}

  std::string_view name() const override { return "onednn"; }

  Result<std::unique_ptr<Gemm>> prepare(const GemmShape& shape) const override {
    STEPFUSE_TRY(check_gemm_shape(shape));
    const auto has = [](ir::DType dtype) { return dtype == ir::DType::BF16 || dtype == ir::DType::F32; };
    if (shape.ab != ir::DType::BF16 || !has(shape.d) || (shape.has_c && !has(shape.c))) return nullptr;
    if (shape.m == 0 || shape.n == 0 || shape.k == 0) return nullptr;
    if (shape.ldb != (shape.trans_b ? shape.k : shape.n)) return nullptr;  // see has_column_tiles()
    const OmpSingleThread single;  // a primitive is made for the number of threads it finds
    try {
      auto gemm = std::make_unique<OneDnnGemm>(shape, engine_);
      // A shape that oneDNN would not give to the matrix units is somebody else's.
      if (gemm->misfit().empty()) return gemm;
    } catch (const dnnl::error&) {
      // It has no primitive for this shape: not ours to multiply, the next provider may.
    }
    return nullptr;
  }

 private:
  dnnl::engine engine_;
};

}  // namespace

Result<std::unique_ptr<GemmProvider>> make_onednn_provider(const CpuTarget& host) {
  if (!host.avx512_bf16 && !host.amx_bf16)
    return fail(StatusCode::Environment, "this CPU has neither AMX nor AVX512-BF16");
  try {
    return std::make_unique<OneDnnProvider>();
  } catch (const dnnl::error& error) {
    return fail(StatusCode::Environment, "oneDNN does not start: {}", error.what());
  }
}

}  // namespace stepfuse::runtime
