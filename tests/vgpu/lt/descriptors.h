// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Descriptors of an operation, of a matrix and of a preference. Live ones are known by address, so that one that was
/// destroyed, or was never made, is found out.

#include "tests/vgpu/lt/attributes.h"

#include <bit>
#include <cstdint>

namespace stepfuse::vgpu::lt {

struct Layout {
  AttributeValues values;
  cudaDataType type() const { return static_cast<cudaDataType>(values[CUBLASLT_MATRIX_LAYOUT_TYPE]); }
  bool row_major() const { return values[CUBLASLT_MATRIX_LAYOUT_ORDER] == CUBLASLT_ORDER_ROW; }
  uint64_t rows() const { return values[CUBLASLT_MATRIX_LAYOUT_ROWS]; }
  uint64_t cols() const { return values[CUBLASLT_MATRIX_LAYOUT_COLS]; }
  int64_t ld() const { return static_cast<int64_t>(values[CUBLASLT_MATRIX_LAYOUT_LD]); }
  int64_t batch_count() const { return static_cast<int64_t>(values[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT]); }
  int64_t batch_stride() const { return static_cast<int64_t>(values[CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET]); }
  bool pointer_array() const { return values[CUBLASLT_MATRIX_LAYOUT_BATCH_MODE] == CUBLASLT_BATCH_MODE_POINTER_ARRAY; }
};

struct Operation {
  AttributeValues values;
  cublasComputeType_t compute() const {
    return static_cast<cublasComputeType_t>(values[CUBLASLT_MATMUL_DESC_COMPUTE_TYPE]);
  }
  cudaDataType scale() const { return static_cast<cudaDataType>(values[CUBLASLT_MATMUL_DESC_SCALE_TYPE]); }
  bool device_scalars() const { return values[CUBLASLT_MATMUL_DESC_POINTER_MODE] == CUBLASLT_POINTER_MODE_DEVICE; }
  bool transposed_a() const { return values[CUBLASLT_MATMUL_DESC_TRANSA] != CUBLAS_OP_N; }
  bool transposed_b() const { return values[CUBLASLT_MATMUL_DESC_TRANSB] != CUBLAS_OP_N; }
};

struct Preference {
  AttributeValues values;
  uint64_t max_workspace() const { return values[CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES]; }
  uint32_t reduction_mask() const { return static_cast<uint32_t>(values[CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK]); }
  float max_waves() const {
    return std::bit_cast<float>(static_cast<uint32_t>(values[CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT]));
  }
  uint64_t implementations() const { return values[CUBLASLT_MATMUL_PREF_IMPL_MASK]; }
  /// Of A, B, C, D by index, in bytes.
  uint32_t alignment(size_t index) const {
    return static_cast<uint32_t>(values[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + index]);
  }
};

/// What a handle stands for, or null if it stands for nothing that lives.
const Layout* find(cublasLtMatrixLayout_t handle);
const Operation* find(cublasLtMatmulDesc_t handle);
const Preference* find(cublasLtMatmulPreference_t handle);

/// How many descriptors live: a leak of ours shows here.
size_t live_descriptors();

}  // namespace stepfuse::vgpu::lt
