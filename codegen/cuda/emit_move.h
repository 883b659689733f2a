// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/type.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

/// What is neither fused nor a product: a window is copied, converted where the types differ, and may get a number
/// added along its diagonal. One launch serves any number of windows, as with fused kernels (kernel_abi.h):
///
///   extern "C" __global__ void NAME(const Chunk* chunks, unsigned chunk_count, const Row* rows)
///
/// A chunk is elements index * 4096 <= i < (index + 1) * 4096 of a row's window in row-major order; unit and part are
/// not used. A block walks one chunk.
namespace stepfuse::codegen {

struct CudaMove {
  ir::DType from = ir::DType::F32;
  ir::DType to = ir::DType::F32;
  std::optional<ir::DType> diagonal;  // of the number that is added: F64 for a scalar slot; none: a plain copy
  friend auto operator<=>(const CudaMove&, const CudaMove&) = default;
};

/// One window. 8-byte words, as the kernel's Row has them.
struct CudaMoveRow {
  uint64_t skip = 0;  // const unsigned*, or 0: where it is not 0, nothing is stored
  uint64_t from = 0, to = 0;
  uint64_t number = 0;      // of the diagonal; rounded to the math type, f64 if either side is f64, else f32
  uint64_t everywhere = 0;  // 1: the window is a diagonal already; else elements with equal last two indices get it
  std::array<int64_t, 3> dims{};
  std::array<int64_t, 3> from_strides{}, to_strides{};  // in elements
};

/// "stepfuse_move_f32_bf16", "stepfuse_diagonal_f32_f32_f64".
std::string cuda_move_name(const CudaMove& move);

/// Pure. Compile with nvrtc_options(ir::Mode::Strict).
std::string emit_move(const CudaMove& move);

}  // namespace stepfuse::codegen
