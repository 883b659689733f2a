// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One product D = alpha op(A) op(B) + beta C with everything but pointers, checked as the cuBLASLt guide's section on
/// cublasLtMatmul() demands.

#include "tests/vgpu/lt/descriptors.h"

#include <cstdint>

namespace stepfuse::vgpu::lt {

size_t element_bytes(cudaDataType type);
const char* type_name(cudaDataType type);

/// A matrix of a batch as strides. `lines` runs of `line_length` neighbours lie `ld` apart: the columns of a
/// column-major matrix, the rows of a row-major one.
struct Matrix {
  cudaDataType type;
  int64_t rows, cols;
  int64_t row_stride, col_stride;  // in elements
  int64_t lines, line_length, ld;
  int64_t batch_stride;  // in elements; 0 in pointer arrays
  size_t element;        // bytes

  /// From the first byte to behind the last one, of one matrix.
  size_t extent_bytes() const { return static_cast<size_t>((lines - 1) * ld + line_length) * element; }
  size_t line_bytes() const { return static_cast<size_t>(line_length) * element; }
};

/// Types that go together, as a row of the guide's table has them.
struct Types {
  cublasComputeType_t compute;
  cudaDataType scale, a, b, c, d;
  friend bool operator==(const Types&, const Types&) = default;
};

/// Whether the guide's table lists the combination and this library computes it. Complains if not.
cublasStatus_t check_types(const char* where, const Types& types);

struct Problem {
  Types types;
  bool device_scalars;
  bool pointer_array;
  int64_t batch;
  int64_t m, n, k;
  Matrix a, b, c, d;  // a and b as op() sees them: m x k, k x n
  bool is_f64() const { return types.d == CUDA_R_64F; }
};

/// Reads the descriptors. Anything but success has been complained of.
cublasStatus_t read_problem(const char* where, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                            Problem& problem);

/// The largest power of two up to 256 that divides every step from one line, or one matrix of the batch, to the next.
uint32_t stride_alignment(const Problem& problem, const Matrix& matrix);

}  // namespace stepfuse::vgpu::lt
