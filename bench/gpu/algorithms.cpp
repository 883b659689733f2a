// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What cuBLASLt's algorithms say of themselves: whether any computes one triangle alone, takes arrays of pointers, or
// reads alpha and beta from the device.
#include "bench/gpu/parts.h"

namespace stepfuse::gpu_check {

namespace {

using namespace cuda;  // NOLINT(google-build-using-namespace): the API's own names

struct Types {
  const char* name;
  cublasComputeType_t compute;
  cudaDataType scale, ab, cd;
};
constexpr Types kTypes[] = {
    {"bf16 to bf16", CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF},
    {"bf16 to f32", CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F},
    {"f16 to f16", CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F},
    {"f16 to f32", CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F},
    {"f32 to f32", CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
};
constexpr int kMostAlgorithms = 256;

std::vector<int> ids_of(const runtime::Lt& lt, const Types& t) {
  std::vector<int> ids(kMostAlgorithms);
  int count = 0;
  const auto status = lt.call().cublasLtMatmulAlgoGetIds(lt.handle(), t.compute, t.scale, t.ab, t.ab, t.cd, t.cd,
                                                         kMostAlgorithms, ids.data(), &count);
  if (const Outcome outcome = lt.check(status, "listing algorithms"); !outcome)
    throw std::runtime_error(outcome.error().message);
  ids.resize(static_cast<size_t>(count));
  return ids;
}

/// A capability of 4 bytes; nothing where the library does not know it.
std::optional<int> capability(const runtime::Lt& lt, const cublasLtMatmulAlgo_t& algorithm,
                              cublasLtMatmulAlgoCapAttributes_t which) {
  int value = 0;
  size_t written = 0;
  const auto status = lt.call().cublasLtMatmulAlgoCapGetAttribute(&algorithm, which, &value, sizeof value, &written);
  if (status != CUBLAS_STATUS_SUCCESS) return std::nullopt;
  return value;
}

Json describe(const runtime::Lt& lt, const Types& t) {
  Json uplo = Json::array(), arrays = Json::array(), strided = Json::array(), device = Json::array(),
       out_of_place = Json::array();
  const std::vector<int> ids = ids_of(lt, t);
  for (const int id : ids) {
    cublasLtMatmulAlgo_t algorithm{};
    if (lt.call().cublasLtMatmulAlgoInit(lt.handle(), t.compute, t.scale, t.ab, t.ab, t.cd, t.cd, id, &algorithm) !=
        CUBLAS_STATUS_SUCCESS)
      continue;
    const auto note = [&](Json& list, cublasLtMatmulAlgoCapAttributes_t which, int mask) {
      if (const auto value = capability(lt, algorithm, which); value && (*value & mask) != 0) list.push_back(id);
    };
    note(uplo, CUBLASLT_ALGO_CAP_UPLO_SUPPORT, -1);
    note(arrays, CUBLASLT_ALGO_CAP_POINTER_ARRAY_BATCH_SUPPORT, -1);
    note(strided, CUBLASLT_ALGO_CAP_STRIDED_BATCH_SUPPORT, -1);
    note(device, CUBLASLT_ALGO_CAP_POINTER_MODE_MASK, CUBLASLT_POINTER_MODE_MASK_DEVICE);
    note(out_of_place, CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT, -1);
  }
  return {{"types", t.name},
          {"algorithms", ids},
          {"uplo", uplo},
          {"pointer_array", arrays},
          {"strided", strided},
          {"device_scalars", device},
          {"out_of_place", out_of_place}};
}

}  // namespace

void ask_algorithms(const Bench& bench) {
  for (const Types& types : kTypes)
    bench.report.fact(fmt::format("lt algorithms, {}", types.name), describe(bench.gpu.lt(), types));
}

}  // namespace stepfuse::gpu_check
