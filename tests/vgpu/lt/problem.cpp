// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/problem.h"

#include <algorithm>
#include <utility>

namespace stepfuse::vgpu::lt {
namespace {

/// cuBLASLt guide, cublasLtMatmul(), the table of types for regular column- or row-major matrices, rows of real floats.
/// A and B have one type, C and D have one type. What the table has beyond these (f16, i32, TF32 and fp8 arithmetic,
/// complex numbers) the runtime does not use, and the stand-in does not compute.
struct TypeRow {
  cublasComputeType_t compute, pedantic;
  cudaDataType scale, inputs, outputs;
};
constexpr TypeRow kTypeTable[] = {
    {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF},
    {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F},
    {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F_PEDANTIC, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F},
};

cublasStatus_t read_layout(const char* where, const char* name, cublasLtMatrixLayout_t handle, Matrix& matrix) {
  const Layout* layout = find(handle);
  if (layout == nullptr) return invalid(where, "the layout of {} is no living layout", name);
  const bool row_major = layout->row_major();
  matrix.type = layout->type();
  matrix.element = element_bytes(matrix.type);
  matrix.rows = static_cast<int64_t>(layout->rows());
  matrix.cols = static_cast<int64_t>(layout->cols());
  matrix.ld = layout->ld();
  matrix.row_stride = row_major ? matrix.ld : 1;
  matrix.col_stride = row_major ? 1 : matrix.ld;
  matrix.lines = row_major ? matrix.rows : matrix.cols;
  matrix.line_length = row_major ? matrix.cols : matrix.rows;
  matrix.batch_stride = layout->pointer_array() ? 0 : layout->batch_stride();
  if (matrix.ld < matrix.line_length) {
    return invalid(where, "{} is {} x {} in {} order, its leading dimension {} must be at least {}", name, matrix.rows,
                   matrix.cols, row_major ? "row" : "column", matrix.ld, matrix.line_length);
  }
  return CUBLAS_STATUS_SUCCESS;
}

void transpose(Matrix& matrix) {
  std::swap(matrix.rows, matrix.cols);
  std::swap(matrix.row_stride, matrix.col_stride);
}

cublasStatus_t check_shapes(const char* where, const Problem& problem) {
  const auto expect = [&](const char* name, const Matrix& matrix, int64_t rows, int64_t cols) {
    if (matrix.rows == rows && matrix.cols == cols) return CUBLAS_STATUS_SUCCESS;
    return invalid(where, "{} is {} x {}; D of {} x {} and k = {} ask for {} x {}", name, matrix.rows, matrix.cols,
                   problem.m, problem.n, problem.k, rows, cols);
  };
  for (const cublasStatus_t status :
       {expect("op(A)", problem.a, problem.m, problem.k), expect("op(B)", problem.b, problem.k, problem.n),
        expect("C", problem.c, problem.m, problem.n)}) {
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// cublasLtMatrixLayoutAttribute_t: the batch's count and mode must be the same in all layouts; a stride of 0 gives
/// each product the same input, which no output can bear.
cublasStatus_t check_batches(const char* where, const Layout* const (&layouts)[4], const Problem& problem) {
  const char* names = "ABCD";
  for (size_t i = 0; i < 4; ++i) {
    if (layouts[i]->batch_count() != problem.batch) {
      return invalid(where, "{} has {} matrices in its batch, D has {}", names[i], layouts[i]->batch_count(),
                     problem.batch);
    }
    if (layouts[i]->pointer_array() != problem.pointer_array) {
      return invalid(where, "the batch of {} is {}, that of D is not", names[i],
                     layouts[i]->pointer_array() ? "an array of pointers" : "strided");
    }
    if (problem.pointer_array && layouts[i]->batch_stride() != 0) {
      return invalid(where, "{} has both an array of pointers and a batch stride of {}", names[i],
                     layouts[i]->batch_stride());
    }
  }
  if (problem.batch > 1 && !problem.pointer_array && problem.d.batch_stride == 0) {
    return invalid(where, "{} products would be written to one D: its batch stride is 0", problem.batch);
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

size_t element_bytes(cudaDataType type) {
  if (type == CUDA_R_64F) return 8;
  return type == CUDA_R_32F ? 4 : 2;
}

const char* type_name(cudaDataType type) {
  if (type == CUDA_R_64F) return "f64";
  if (type == CUDA_R_32F) return "f32";
  if (type == CUDA_R_16F) return "f16";
  return type == CUDA_R_16BF ? "bf16" : "a type that is not known here";
}

cublasStatus_t check_types(const char* where, const Types& types) {
  for (const TypeRow& row : kTypeTable) {
    if ((types.compute == row.compute || types.compute == row.pedantic) && types.scale == row.scale &&
        types.a == row.inputs && types.b == row.inputs && types.c == row.outputs && types.d == row.outputs) {
      return CUBLAS_STATUS_SUCCESS;
    }
  }
  return not_supported(
      where,
      "compute type {}, scale {}, A {}, B {}, C {}, D {}; there are f64 in COMPUTE_64F, and in COMPUTE_32F with scale "
      "f32: f32 to f32, f16 to f16 or f32, bf16 to bf16 or f32, with A like B and C like D",
      static_cast<int>(types.compute), type_name(types.scale), type_name(types.a), type_name(types.b),
      type_name(types.c), type_name(types.d));
}

cublasStatus_t read_problem(const char* where, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                            Problem& problem) {
  const Operation* operation = find(desc);
  if (operation == nullptr) return invalid(where, "the operation's descriptor is no living descriptor");
  for (const cublasStatus_t status : {read_layout(where, "A", a, problem.a), read_layout(where, "B", b, problem.b),
                                      read_layout(where, "C", c, problem.c), read_layout(where, "D", d, problem.d)}) {
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  problem.types = {operation->compute(), operation->scale(), problem.a.type,
                   problem.b.type,       problem.c.type,     problem.d.type};
  if (const cublasStatus_t status = check_types(where, problem.types); status != CUBLAS_STATUS_SUCCESS) return status;
  problem.device_scalars = operation->device_scalars();
  if (operation->transposed_a()) transpose(problem.a);
  if (operation->transposed_b()) transpose(problem.b);
  problem.m = problem.d.rows;
  problem.n = problem.d.cols;
  problem.k = problem.a.cols;
  if (const cublasStatus_t status = check_shapes(where, problem); status != CUBLAS_STATUS_SUCCESS) return status;
  problem.batch = find(d)->batch_count();
  problem.pointer_array = find(d)->pointer_array();
  return check_batches(where, {find(a), find(b), find(c), find(d)}, problem);
}

uint32_t stride_alignment(const Problem& problem, const Matrix& matrix) {
  uint64_t steps = 256 | (static_cast<uint64_t>(matrix.ld) * matrix.element);
  if (problem.batch > 1) steps |= static_cast<uint64_t>(matrix.batch_stride) * matrix.element;
  return static_cast<uint32_t>(steps & -steps);  // the lowest bit that is set
}

}  // namespace stepfuse::vgpu::lt
