// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the stand-in for cuBLASLt exports beside the library's own names, for tests. Link the target vgpu_cublaslt, or
/// look the functions up in the open libcublasLt.so.13.

#include <cstddef>
#include <cstdint>

#define STEPFUSE_VGPU_LT_API extern "C" __attribute__((visibility("default")))

/// A product as cublasLtMatmul took it, after all checks.
struct VgpuLtMatmul {
  int64_t m, n, k, batch;
  int compute_type, scale_type;  // cublasComputeType_t, cudaDataType
  int input_type, output_type;
  int device_scalars;
  double alpha, beta;  // 0 with device scalars
  int pointer_array;
  int64_t row_stride[4], col_stride[4];  // of op(A), op(B), C, D, in elements
  int64_t batch_stride[4];
  uint64_t address[4];
  int algorithm, split;
  uint32_t reduction_scheme;
  uint32_t promised_alignment[4];
  uint64_t workspace_needed, workspace_given;
};

/// From now on the heuristic finds nothing; 0 ends that.
STEPFUSE_VGPU_LT_API void vgpu_lt_force_no_algorithms(int force);
/// Products that were taken, and those that ran (a graph runs one as often as it is launched), of a shape; 0 for any.
STEPFUSE_VGPU_LT_API uint64_t vgpu_lt_matmul_count(int64_t m, int64_t n, int64_t k);
STEPFUSE_VGPU_LT_API uint64_t vgpu_lt_run_count(int64_t m, int64_t n, int64_t k);
/// Of the products that were taken, those that need a workspace.
STEPFUSE_VGPU_LT_API uint64_t vgpu_lt_workspace_count(void);
/// Calls of cublasLtMatmulAlgoGetHeuristic.
STEPFUSE_VGPU_LT_API uint64_t vgpu_lt_heuristic_count(void);
/// The last product that was taken; 0 if there was none.
STEPFUSE_VGPU_LT_API int vgpu_lt_last_matmul(VgpuLtMatmul* product);
/// Algorithms carry the device's stamp; another stamp makes those of before foreign. 0: the first one again.
STEPFUSE_VGPU_LT_API void vgpu_lt_set_device_stamp(uint64_t stamp);
/// Makes a cublasLtMatmulAlgo_t one of another version of the library.
STEPFUSE_VGPU_LT_API void vgpu_lt_corrupt_stamp(void* algo);
/// How often the stand-in complained, and its last words: cut to `bytes` with a final zero.
STEPFUSE_VGPU_LT_API uint64_t vgpu_lt_complaint_count(void);
STEPFUSE_VGPU_LT_API void vgpu_lt_last_complaint(char* text, size_t bytes);
/// Handles and descriptors that were made and not destroyed.
STEPFUSE_VGPU_LT_API size_t vgpu_lt_live_objects(void);
/// Counts, complaints and what was forced or set by these functions are forgotten; handles and descriptors stay.
STEPFUSE_VGPU_LT_API void vgpu_lt_reset(void);
