// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The part of cuBLASLt 13 that the runtime uses, so that building needs no toolkit. Names, values and sizes are the
/// library's; tests/cuda/cublaslt_header_test.cpp compares them with the real header where there is one. Functions are
/// listed in cublaslt_functions.def and looked up at run time, never linked. A value that is not listed here is one
/// that we never pass.

#include <cstddef>
#include <cstdint>

/// A stream of the driver, which is what cudaStream_t is too.
struct CUstream_st;

namespace stepfuse::cuda {

enum cublasStatus_t : int {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16,
};

enum cudaDataType : int {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_8I = 3,
  CUDA_R_32I = 10,
  CUDA_R_16BF = 14,
};

enum cublasComputeType_t : int {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_16F_PEDANTIC = 65,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_64F_PEDANTIC = 71,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
};

enum cublasOperation_t : int { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };

enum cublasFillMode_t : int { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1, CUBLAS_FILL_MODE_FULL = 2 };

enum cublasLtPointerMode_t : int {
  CUBLASLT_POINTER_MODE_HOST = 0,
  CUBLASLT_POINTER_MODE_DEVICE = 1,
  CUBLASLT_POINTER_MODE_DEVICE_VECTOR = 2,
  CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO = 3,
  CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST = 4,
};

/// Bits of CUBLASLT_ALGO_CAP_POINTER_MODE_MASK.
enum cublasLtPointerModeMask_t : int {
  CUBLASLT_POINTER_MODE_MASK_HOST = 1,
  CUBLASLT_POINTER_MODE_MASK_DEVICE = 2,
  CUBLASLT_POINTER_MODE_MASK_DEVICE_VECTOR = 4,
  CUBLASLT_POINTER_MODE_MASK_ALPHA_DEVICE_VECTOR_BETA_ZERO = 8,
  CUBLASLT_POINTER_MODE_MASK_ALPHA_DEVICE_VECTOR_BETA_HOST = 16,
};

enum cublasLtOrder_t : int { CUBLASLT_ORDER_COL = 0, CUBLASLT_ORDER_ROW = 1 };

enum cublasLtBatchMode_t : int { CUBLASLT_BATCH_MODE_STRIDED = 0, CUBLASLT_BATCH_MODE_POINTER_ARRAY = 1 };

enum cublasLtEpilogue_t : int { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_RELU = 2, CUBLASLT_EPILOGUE_BIAS = 4 };

/// How the parts of a split K are added. With any but None the order of the sum may depend on chance.
enum cublasLtReductionScheme_t : int {
  CUBLASLT_REDUCTION_SCHEME_NONE = 0,
  CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
  CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE = 4,
  CUBLASLT_REDUCTION_SCHEME_MASK = 7,
};

enum cublasLtMatmulSearch_t : int { CUBLASLT_SEARCH_BEST_FIT = 0, CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID = 1 };

/// The header gives these as macros; hence names of our own. Bits of CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS and of
/// CUBLASLT_MATMUL_PREF_IMPL_MASK.
inline constexpr uint64_t kNumericalImplFma = 0x01;
inline constexpr uint64_t kNumericalImplHmma = 0x02;
inline constexpr uint64_t kNumericalImplDmma = 0x08;
inline constexpr uint64_t kNumericalImplAccumulator16F = uint64_t{0x01} << 8;
inline constexpr uint64_t kNumericalImplAccumulator32F = uint64_t{0x02} << 8;
inline constexpr uint64_t kNumericalImplAccumulator64F = uint64_t{0x04} << 8;
inline constexpr uint64_t kNumericalImplInput16F = uint64_t{0x01} << 16;
inline constexpr uint64_t kNumericalImplInput16BF = uint64_t{0x02} << 16;
inline constexpr uint64_t kNumericalImplInputTf32 = uint64_t{0x04} << 16;
inline constexpr uint64_t kNumericalImplInput32F = uint64_t{0x08} << 16;
inline constexpr uint64_t kNumericalImplInput64F = uint64_t{0x10} << 16;

/// The comment of an attribute is the type of its value.
enum cublasLtMatrixLayoutAttribute_t : int {
  CUBLASLT_MATRIX_LAYOUT_TYPE = 0,                  // uint32_t, cudaDataType
  CUBLASLT_MATRIX_LAYOUT_ORDER = 1,                 // int32_t, cublasLtOrder_t
  CUBLASLT_MATRIX_LAYOUT_ROWS = 2,                  // uint64_t
  CUBLASLT_MATRIX_LAYOUT_COLS = 3,                  // uint64_t
  CUBLASLT_MATRIX_LAYOUT_LD = 4,                    // int64_t, elements
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,           // int32_t, 1
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6,  // int64_t, elements, 0
  CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET = 7,          // int64_t, bytes, 0
  CUBLASLT_MATRIX_LAYOUT_BATCH_MODE = 8,            // uint32_t, cublasLtBatchMode_t
};

enum cublasLtMatmulDescAttributes_t : int {
  CUBLASLT_MATMUL_DESC_COMPUTE_TYPE = 0,                // int32_t, cublasComputeType_t
  CUBLASLT_MATMUL_DESC_SCALE_TYPE = 1,                  // int32_t, cudaDataType
  CUBLASLT_MATMUL_DESC_POINTER_MODE = 2,                // int32_t, cublasLtPointerMode_t
  CUBLASLT_MATMUL_DESC_TRANSA = 3,                      // int32_t, cublasOperation_t
  CUBLASLT_MATMUL_DESC_TRANSB = 4,                      // int32_t, cublasOperation_t
  CUBLASLT_MATMUL_DESC_TRANSC = 5,                      // int32_t, only CUBLAS_OP_N
  CUBLASLT_MATMUL_DESC_FILL_MODE = 6,                   // int32_t, cublasFillMode_t
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,                    // uint32_t, cublasLtEpilogue_t
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,                // const void*
  CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE = 10,          // int64_t
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,       // void*
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,            // int64_t
  CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13,  // int64_t
  CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE = 14,  // int64_t
  CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET = 15,            // int32_t, 0: all
  CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,            // const void*
  CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,            // const void*
  CUBLASLT_MATMUL_DESC_C_SCALE_POINTER = 19,            // const void*
  CUBLASLT_MATMUL_DESC_D_SCALE_POINTER = 20,            // const void*
  CUBLASLT_MATMUL_DESC_AMAX_D_POINTER = 21,             // void*
  CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,                 // int8_t
  CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,             // int32_t, cudaDataType, -1
};

enum cublasLtMatmulPreferenceAttributes_t : int {
  CUBLASLT_MATMUL_PREF_SEARCH_MODE = 0,            // uint32_t, cublasLtMatmulSearch_t
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,    // uint64_t, 0
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,  // uint32_t, all
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,  // uint32_t, 256
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,  // uint32_t, 256
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,  // uint32_t, 256
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,  // uint32_t, 256
  CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT = 9,        // float, 0: no limit
  CUBLASLT_MATMUL_PREF_IMPL_MASK = 12,             // uint64_t, all
};

enum cublasLtMatmulAlgoConfigAttributes_t : int {
  CUBLASLT_ALGO_CONFIG_ID = 0,                // int32_t, read only
  CUBLASLT_ALGO_CONFIG_TILE_ID = 1,           // uint32_t
  CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2,        // int32_t, 1
  CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME = 3,  // uint32_t, cublasLtReductionScheme_t
  CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING = 4,     // uint32_t
  CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION = 5,     // uint32_t
  CUBLASLT_ALGO_CONFIG_STAGES_ID = 6,         // uint32_t
  CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID = 7,    // uint16_t
  CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID = 8,  // uint16_t
};

enum cublasLtMatmulAlgoCapAttributes_t : int {
  CUBLASLT_ALGO_CAP_SPLITK_SUPPORT = 0,                // int32_t
  CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK = 1,         // uint32_t
  CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT = 2,         // uint32_t
  CUBLASLT_ALGO_CAP_STRIDED_BATCH_SUPPORT = 3,         // int32_t
  CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT = 4,   // int32_t
  CUBLASLT_ALGO_CAP_UPLO_SUPPORT = 5,                  // int32_t
  CUBLASLT_ALGO_CAP_TILE_IDS = 6,                      // uint32_t[]
  CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX = 7,             // int32_t
  CUBLASLT_ALGO_CAP_CUSTOM_MEMORY_ORDER = 10,          // int32_t
  CUBLASLT_ALGO_CAP_POINTER_MODE_MASK = 11,            // uint32_t
  CUBLASLT_ALGO_CAP_EPILOGUE_MASK = 12,                // uint32_t
  CUBLASLT_ALGO_CAP_STAGES_IDS = 13,                   // uint32_t[]
  CUBLASLT_ALGO_CAP_LD_NEGATIVE = 14,                  // int32_t
  CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS = 15,         // uint64_t
  CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES = 16,        // uint32_t
  CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES = 17,        // uint32_t
  CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES = 18,        // uint32_t
  CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES = 19,        // uint32_t
  CUBLASLT_ALGO_CAP_POINTER_ARRAY_BATCH_SUPPORT = 21,  // int32_t
};

/// Handles. What they point to belongs to the library.
using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque_t*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque_t*;

/// Plain data that may be stored and given back to the same version of the library on the same kind of device.
struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;  // the rest holds only if this is CUBLAS_STATUS_SUCCESS
  float wavesCount;
  int reserved[4];
};

/// Pointers to the functions, by their names.
struct CublasLtFunctions {
#define STEPFUSE_CUBLASLT_FUNCTION(result, name, parameters) result(*name) parameters = nullptr;
#include "runtime/cuda/api/cublaslt_functions.def"
};

}  // namespace stepfuse::cuda
