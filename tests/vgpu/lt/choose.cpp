// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
/// Choosing an algorithm: cublasLtMatmulAlgo...
#include "tests/vgpu/lt/algorithms.h"
#include "tests/vgpu/lt/exports.h"
#include "tests/vgpu/lt/state.h"

namespace stepfuse::vgpu::lt {
namespace {

/// What a blob of an algorithm that AlgoInit made promises: only what the algorithm needs.
Choice fresh_choice(const Algorithm& algorithm, const Types& types) {
  Choice choice{types, algorithm.id, 1, CUBLASLT_REDUCTION_SCHEME_NONE, {}};
  const cudaDataType of_matrix[] = {types.a, types.b, types.c, types.d};
  for (size_t i = 0; i < 4; ++i) {
    choice.alignment[i] = std::max(algorithm.min_alignment, static_cast<uint32_t>(element_bytes(of_matrix[i])));
  }
  return choice;
}

/// Every configuration but the split and its reduction is the algorithm's own business here.
Legal only_zero(int64_t value) { return value == 0 ? Legal::Yes : Legal::Unknown; }
Legal read_only(int64_t) { return Legal::No; }
Legal positive(int64_t value) { return value > 0 ? Legal::Yes : Legal::No; }
Legal scheme(int64_t value) {
  return value >= 0 && value <= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE && (value & (value - 1)) == 0 ? Legal::Yes
                                                                                                    : Legal::No;
}

#define ATTRIBUTE(name, bytes, initial, check, choices) {name, #name, bytes, initial, check, choices}

constexpr Attribute kConfigAttributes[] = {
    ATTRIBUTE(CUBLASLT_ALGO_CONFIG_ID, 4, 0, read_only, "nothing, it is read only"),
    ATTRIBUTE(CUBLASLT_ALGO_CONFIG_TILE_ID, 4, 0, only_zero, "0"),
    ATTRIBUTE(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4, 1, positive, "1 and more"),
    ATTRIBUTE(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4, 0, scheme, "0, 1, 2, 4"),
    ATTRIBUTE(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4, 0, only_zero, "0"),
    ATTRIBUTE(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4, 0, only_zero, "0"),
    ATTRIBUTE(CUBLASLT_ALGO_CONFIG_STAGES_ID, 4, 0, only_zero, "0"),
    ATTRIBUTE(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2, 0, only_zero, "0"),
    ATTRIBUTE(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2, 0, only_zero, "0"),
};

#undef ATTRIBUTE

AttributeValues config_values(const Choice& choice) {
  AttributeValues values = initial_values(kConfigAttributes);
  values[CUBLASLT_ALGO_CONFIG_ID] = static_cast<uint64_t>(choice.id);
  values[CUBLASLT_ALGO_CONFIG_SPLITK_NUM] = static_cast<uint64_t>(choice.split);
  values[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME] = choice.reduction_scheme;
  return values;
}

/// Split and scheme are set one after the other, so only Check and Matmul see whether they go together.
cublasStatus_t check_config(const char* where, const Algorithm& algorithm, const Choice& choice) {
  if (choice.split > algorithm.max_split) {
    return invalid(where, "algorithm {} splits K in {} at most, not {}", algorithm.id, algorithm.max_split,
                   choice.split);
  }
  if ((choice.reduction_scheme & ~algorithm.reduction_scheme) != 0) {
    return invalid(where, "algorithm {} has no reduction scheme {}", algorithm.id, choice.reduction_scheme);
  }
  return CUBLAS_STATUS_SUCCESS;
}

struct Capability {
  int id;
  const char* name;
  size_t bytes;
  uint64_t value;
};

std::vector<Capability> capabilities(const Algorithm& algorithm, const Types& types) {
  const Choice choice = fresh_choice(algorithm, types);
#define CAPABILITY(name, bytes, value) \
  Capability { CUBLASLT_ALGO_CAP_##name, "CUBLASLT_ALGO_CAP_" #name, bytes, value }
  return {
      CAPABILITY(SPLITK_SUPPORT, 4, algorithm.max_split > 1),
      CAPABILITY(REDUCTION_SCHEME_MASK, 4, algorithm.reduction_scheme),
      CAPABILITY(CTA_SWIZZLING_SUPPORT, 4, 0),
      CAPABILITY(STRIDED_BATCH_SUPPORT, 4, 1),
      CAPABILITY(OUT_OF_PLACE_RESULT_SUPPORT, 4, 1),
      CAPABILITY(UPLO_SUPPORT, 4, 0),
      CAPABILITY(TILE_IDS, 0, 0),
      CAPABILITY(CUSTOM_OPTION_MAX, 4, 0),
      CAPABILITY(CUSTOM_MEMORY_ORDER, 4, 0),
      CAPABILITY(POINTER_MODE_MASK, 4, algorithm.pointer_modes),
      CAPABILITY(EPILOGUE_MASK, 4, CUBLASLT_EPILOGUE_DEFAULT),
      CAPABILITY(STAGES_IDS, 0, 0),
      CAPABILITY(LD_NEGATIVE, 4, 0),
      CAPABILITY(NUMERICAL_IMPL_FLAGS, 8, implementation_flags(algorithm, types)),
      CAPABILITY(MIN_ALIGNMENT_A_BYTES, 4, choice.alignment[0]),
      CAPABILITY(MIN_ALIGNMENT_B_BYTES, 4, choice.alignment[1]),
      CAPABILITY(MIN_ALIGNMENT_C_BYTES, 4, choice.alignment[2]),
      CAPABILITY(MIN_ALIGNMENT_D_BYTES, 4, choice.alignment[3]),
      CAPABILITY(POINTER_ARRAY_BATCH_SUPPORT, 4, algorithm.pointer_arrays),
  };
#undef CAPABILITY
}

cublasLtMatmulHeuristicResult_t result_of(const Problem& problem, const Choice& choice) {
  cublasLtMatmulHeuristicResult_t result{};
  result.algo = encode(choice);
  result.workspaceSize = workspace_bytes(problem, choice);
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = waves(problem, choice);
  return result;
}

cublasStatus_t heuristic(const char* where, const Problem& problem, cublasLtMatmulPreference_t preference,
                         int requested, cublasLtMatmulHeuristicResult_t* results, int* returned) {
  const Preference* found = find(preference);
  if (found == nullptr) return invalid(where, "the preference is no living preference");
  if (no_algorithms()) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const Choice& choice : candidates(problem, *found)) {
    if (*returned == requested) break;
    results[(*returned)++] = result_of(problem, choice);
  }
  // No algorithm is an answer, not a mistake.
  return *returned == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace stepfuse::vgpu::lt

using namespace stepfuse::vgpu::lt;  // NOLINT(google-build-using-namespace): what follows has C names

namespace stepfuse::cuda {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results, int* returned) {
  const char* where = "cublasLtMatmulAlgoGetHeuristic";
  count_heuristic();
  if (const cublasStatus_t status = check_handle(where, handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (requested <= 0 || results == nullptr || returned == nullptr) {
    return invalid(where, "{} algorithms requested; 1 and more, and room for them and their number", requested);
  }
  *returned = 0;
  Problem problem;
  cublasStatus_t status = read_problem(where, desc, a, b, c, d, problem);
  if (status == CUBLAS_STATUS_SUCCESS) status = heuristic(where, problem, preference, requested, results, returned);
  note_call(where, status, fmt::format("{} algorithms", *returned));
  return status;
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType scale,
                                        cudaDataType a, cudaDataType b, cudaDataType c, cudaDataType d, int requested,
                                        int* ids, int* returned) {
  const char* where = "cublasLtMatmulAlgoGetIds";
  if (const cublasStatus_t status = check_handle(where, handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (requested <= 0 || ids == nullptr || returned == nullptr) {
    return invalid(where, "{} ids requested; 1 and more, and room for them and their number", requested);
  }
  *returned = 0;
  if (const auto status = check_types(where, {compute, scale, a, b, c, d}); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  for (const Algorithm& algorithm : algorithms()) {
    if (*returned < requested) ids[(*returned)++] = algorithm.id;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType scale,
                                      cudaDataType a, cudaDataType b, cudaDataType c, cudaDataType d, int id,
                                      cublasLtMatmulAlgo_t* algo) {
  const char* where = "cublasLtMatmulAlgoInit";
  if (const cublasStatus_t status = check_handle(where, handle); status != CUBLAS_STATUS_SUCCESS) return status;
  const Types types{compute, scale, a, b, c, d};
  if (const cublasStatus_t status = check_types(where, types); status != CUBLAS_STATUS_SUCCESS) return status;
  const Algorithm* algorithm = find_algorithm(id);
  if (algo == nullptr || algorithm == nullptr) return invalid(where, "there is no algorithm {}", id);
  *algo = encode(fresh_choice(*algorithm, types));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  const char* where = "cublasLtMatmulAlgoCheck";
  if (const cublasStatus_t status = check_handle(where, handle); status != CUBLAS_STATUS_SUCCESS) return status;
  if (result == nullptr) return invalid(where, "no place for the result");
  Problem problem;
  Choice choice;
  if (const auto status = read_problem(where, desc, a, b, c, d, problem); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  if (const cublasStatus_t status = decode(where, algo, choice); status != CUBLAS_STATUS_SUCCESS) return status;
  if (const std::string why = misfit(problem, choice); !why.empty()) {
    return not_supported(where, "algorithm {} does not fit: {}", choice.id, why);
  }
  const cublasLtMatmulAlgo_t kept = result->algo;  // the guide: this field is never updated
  *result = result_of(problem, choice);
  result->algo = kept;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  const char* where = "cublasLtMatmulAlgoConfigSetAttribute";
  Choice choice;
  if (const cublasStatus_t status = decode(where, algo, choice); status != CUBLAS_STATUS_SUCCESS) return status;
  AttributeValues values = config_values(choice);
  if (const auto status = set_attribute(where, kConfigAttributes, values, attribute, value, bytes);
      status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  choice.split = static_cast<int>(values[CUBLASLT_ALGO_CONFIG_SPLITK_NUM]);
  choice.reduction_scheme = static_cast<uint32_t>(values[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME]);
  if (const auto status = check_config(where, *find_algorithm(choice.id), choice); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  *algo = encode(choice);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    size_t bytes, size_t* written) {
  const char* where = "cublasLtMatmulAlgoConfigGetAttribute";
  Choice choice;
  if (const cublasStatus_t status = decode(where, algo, choice); status != CUBLAS_STATUS_SUCCESS) return status;
  return get_attribute(where, kConfigAttributes, config_values(choice), attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute, void* value, size_t bytes,
                                                 size_t* written) {
  const char* where = "cublasLtMatmulAlgoCapGetAttribute";
  Choice choice;
  if (const cublasStatus_t status = decode(where, algo, choice); status != CUBLAS_STATUS_SUCCESS) return status;
  for (const Capability& capability : capabilities(*find_algorithm(choice.id), choice.types)) {
    if (capability.id != attribute) continue;
    const std::span bits(&capability.value, 1);
    return give_bytes(where, capability.name, std::as_bytes(bits).first(capability.bytes), value, bytes, written);
  }
  return invalid(where, "there is no capability {}", static_cast<int>(attribute));
}

}  // namespace stepfuse::cuda
