// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// How a generated CUDA kernel meets the runtime. One launch serves any number of parameters: it walks a table of
/// chunks, each of which names a row of a second table, and the row holds everything that belongs to one parameter.
/// Both tables stay on the device; a launch's arguments never hold a user's pointer, so a captured graph never goes
/// stale.
///
///   extern "C" __global__ void NAME(const Chunk* chunks, unsigned chunk_count, const Row* rows)
///
/// Nothing depends on how chunks are spread over blocks: every sum has a fixed order.
namespace stepfuse::codegen {

inline constexpr unsigned kCudaBlockThreads = 256;
/// Most registers of a thread; 256 threads of 64 fill a quarter of a multiprocessor's 64 Ki registers.
inline constexpr unsigned kCudaMaxRegisters = 64;

/// One piece of work, the size of a canonical chunk. 16 bytes, aligned so: one load.
///   Linear: elements index * 4096 <= i < (index + 1) * 4096 of `unit`, cut at d1 * d2.
///   Rows:   the same of the flattened row `unit`, cut at d2.
///   Cols:   columns index * 32 <= c < (index + 1) * 32 of `unit`, cut at d2; d1 from part * 4096, cut at d1.
struct alignas(16) CudaChunk {
  uint32_t row;
  uint32_t unit;
  uint32_t index;
  uint32_t part;
};

/// Columns of one chunk of Scheme::Cols: one warp's width.
inline constexpr int64_t kCudaColumns = 32;

/// Which text a kernel gets.
struct CudaVariant {
  /// Every argument that varies along the innermost dimension is dense along it, and every run of neighbours that a
  /// thread takes begins at a multiple of 16 bytes: moved 16 bytes at a time. Otherwise element by element.
  bool aligned = false;
  friend bool operator==(const CudaVariant&, const CudaVariant&) = default;
};

/// How a kernel's threads share chunks: element i of a chunk belongs to thread i / vector % group of the `group`
/// threads that walk it, `vector` neighbours at a time. With reductions, such a step of the group is one row of 64
/// lanes.
struct CudaGeometry {
  unsigned vector = 1;            // 16 bytes of the narrowest stream; fewer where registers would not do
  unsigned batch = 1;             // vectors that a thread loads before it uses the first
  unsigned group = 1;             // threads that walk one chunk
  unsigned lanes = 1;             // accumulators of a thread, per reduction
  unsigned chunks_per_block = 1;  // a grid of ceil(chunks / chunks_per_block) blocks leaves nobody idle
  bool scalars_stay = true;       // in registers; else each element reads them from the cache
  unsigned elements_per_step() const { return vector * group; }
};
CudaGeometry cuda_geometry(const KernelSpec& spec, const CudaVariant& variant);

/// Where a kernel's arguments lie, for the choice of the variant.
struct CudaArgumentPlace {
  uint64_t address = 0;
  std::array<int64_t, 3> strides{};  // in elements; read of strided kernels only
};
/// Whether the aligned text is right for these arguments.
bool cuda_aligned(const KernelSpec& spec, const std::array<int64_t, 3>& dims,
                  std::span<const CudaArgumentPlace> places);

/// A parameter's row: 8-byte words in this order.
///   scalars    const double*: the slots of Operand::Kind::Scalar
///   skip       const unsigned*: null, or a flag on the device; where it is not 0, nothing is stored
///   dims       3 x long long: d0, d1, d2
///   tickets    unsigned*: one per result of a reduction (Cols: per 32 columns), 0 before and after every launch; null
///              without reductions
///   then for each argument a pointer,
///   in a strided kernel (!spec.contiguous or not Linear) for each argument 3 x long long: strides in elements, 0 where
///   it does not vary, then for each reduction two pointers: its partials (double*, indexed as Reduction says) and its
///   results.
/// The last chunk of a unit to finish adds the unit's partials in the canonical order, finishes (square root, rounding
/// to Reduction::result) and stores the result at: Linear unit, Rows flattened row, Cols unit * d2 + column. A partial
/// is stored only where a unit has several chunks, and adding them overwrites them. A unit without elements whose
/// result is wanted (Linear: d1 * d2 = 0, Rows: d2 = 0, Cols: d1 = 0) has one empty chunk, and its results are those of
/// no element. Extents of strided kernels, and the number of chunks, are below 2^31.
struct CudaRowLayout {
  size_t scalars = 0, skip = 1, dims = 2, tickets = 5;  // in words
  size_t args = 6;
  size_t strides = 0;   // 0: none
  size_t partials = 0;  // of reduction r: partials + 2 * r; its results: one further
  size_t words = 0;
};
CudaRowLayout cuda_row_layout(const KernelSpec& spec);

}  // namespace stepfuse::codegen
