// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/descriptors.h"

#include "tests/vgpu/lt/exports.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace stepfuse::vgpu::lt {
namespace {

Legal any(int64_t) { return Legal::Yes; }
Legal positive(int64_t value) { return value > 0 ? Legal::Yes : Legal::No; }
Legal not_negative(int64_t value) { return value >= 0 ? Legal::Yes : Legal::No; }
Legal only_zero(int64_t value) { return value == 0 ? Legal::Yes : Legal::Unknown; }
Legal only_unset(int64_t value) { return value == -1 ? Legal::Yes : Legal::Unknown; }

/// `known` values are taken; the library has others up to `last`, which the stand-in has no meaning for.
template <int64_t last, int64_t... known>
Legal one_of(int64_t value) {
  const bool is_known = ((value == known) || ...);
  if (is_known) return Legal::Yes;
  return value >= 0 && value <= last ? Legal::Unknown : Legal::No;
}

/// A type of element. Those of 8 bits and less, integers and complex ones exist, up to number 33.
Legal element_type(int64_t value) { return one_of<33, CUDA_R_16F, CUDA_R_16BF, CUDA_R_32F, CUDA_R_64F>(value); }

Legal compute_type(int64_t value) {
  if (value < CUBLAS_COMPUTE_16F) return Legal::No;
  return one_of<79, CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F_PEDANTIC,
                CUBLAS_COMPUTE_16F, CUBLAS_COMPUTE_16F_PEDANTIC, CUBLAS_COMPUTE_32F_FAST_16F,
                CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_COMPUTE_32F_FAST_TF32>(value);
}

/// Beyond 32 bits the library promises nothing.
Legal extent(int64_t value) { return value > 0 && value <= INT32_MAX ? Legal::Yes : Legal::No; }

/// The library knows many sums of bits; DEFAULT is 1.
Legal epilogue(int64_t value) { return one_of<1023, CUBLASLT_EPILOGUE_DEFAULT>(value == 0 ? -1 : value); }

Legal fill_mode(int64_t value) { return one_of<CUBLAS_FILL_MODE_FULL, CUBLAS_FILL_MODE_FULL>(value); }

Legal transposition(int64_t value) { return one_of<CUBLAS_OP_C, CUBLAS_OP_N, CUBLAS_OP_T>(value); }

Legal alignment(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  return value > 0 && value <= 256 && std::has_single_bit(bits) ? Legal::Yes : Legal::No;
}

Legal waves(int64_t bits) {
  const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
  return value >= 0.0F ? Legal::Yes : Legal::No;
}

Legal reduction_mask(int64_t value) {
  return value >= 0 && value <= CUBLASLT_REDUCTION_SCHEME_MASK ? Legal::Yes : Legal::No;
}

#define ATTRIBUTE(name, bytes, initial, check, choices) {name, #name, bytes, initial, check, choices}

constexpr Attribute kLayoutAttributes[] = {
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_TYPE, 4, 0, element_type, "CUDA_R_16F, _16BF, _32F, _64F"),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ORDER, 4, CUBLASLT_ORDER_COL, (one_of<4, CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW>),
              "CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW"),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ROWS, 8, 0, extent, "1 to 2^31 - 1"),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_COLS, 8, 0, extent, "1 to 2^31 - 1"),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_LD, 8, 0, positive, "at least the length of a column, or of a row if ordered so"),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 4, 1, positive, "1 and more"),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 8, 0, not_negative, "0 and more"),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, 8, 0, only_zero, "0"),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, 4, CUBLASLT_BATCH_MODE_STRIDED,
              (one_of<1, CUBLASLT_BATCH_MODE_STRIDED, CUBLASLT_BATCH_MODE_POINTER_ARRAY>), "strided, pointer array"),
};

constexpr Attribute kOperationAttributes[] = {
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 4, 0, compute_type, "a cublasComputeType_t of floats"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_SCALE_TYPE, 4, 0, element_type, "CUDA_R_16F, _16BF, _32F, _64F"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_POINTER_MODE, 4, CUBLASLT_POINTER_MODE_HOST,
              (one_of<4, CUBLASLT_POINTER_MODE_HOST, CUBLASLT_POINTER_MODE_DEVICE>), "HOST, DEVICE"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSA, 4, CUBLAS_OP_N, transposition, "CUBLAS_OP_N, CUBLAS_OP_T"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSB, 4, CUBLAS_OP_N, transposition, "CUBLAS_OP_N, CUBLAS_OP_T"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSC, 4, CUBLAS_OP_N, (one_of<-1, CUBLAS_OP_N>), "CUBLAS_OP_N"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_FILL_MODE, 4, CUBLAS_FILL_MODE_FULL, fill_mode, "CUBLAS_FILL_MODE_FULL"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE, 4, CUBLASLT_EPILOGUE_DEFAULT, epilogue, "CUBLASLT_EPILOGUE_DEFAULT"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8, 0, only_zero, "null"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, 8, 0, only_zero, "0"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 8, 0, only_zero, "null"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 8, 0, only_zero, "0"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 8, 0, only_zero, "0"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, 8, 0, only_zero, "0"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 4, 0, not_negative, "0 and more"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 8, 0, only_zero, "null"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 8, 0, only_zero, "null"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, 8, 0, only_zero, "null"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, 8, 0, only_zero, "null"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, 8, 0, only_zero, "null"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1, 0, only_zero, "0"),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 4, 0xffffffff, only_unset, "-1"),
};

constexpr Attribute kPreferenceAttributes[] = {
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_SEARCH_MODE, 4, CUBLASLT_SEARCH_BEST_FIT, (one_of<9, CUBLASLT_SEARCH_BEST_FIT>),
              "CUBLASLT_SEARCH_BEST_FIT"),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8, 0, any, "any"),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4, CUBLASLT_REDUCTION_SCHEME_MASK, reduction_mask, "0 to 7"),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4, 256, alignment, "powers of two up to 256"),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 4, 256, alignment, "powers of two up to 256"),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 4, 256, alignment, "powers of two up to 256"),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 4, 256, alignment, "powers of two up to 256"),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, 4, 0, waves, "0 and more"),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_IMPL_MASK, 8, ~uint64_t{0}, any, "any"),
};

#undef ATTRIBUTE

/// The living descriptors of one kind. An attribute of one that another thread uses is the caller's race, as it is in
/// the library.
template <class Descriptor>
class Registry {
 public:
  Descriptor* add(Descriptor descriptor) {
    auto owned = std::make_unique<Descriptor>(descriptor);
    Descriptor* raw = owned.get();
    const std::lock_guard lock(mutex_);
    living_.emplace(raw, std::move(owned));
    return raw;
  }

  Descriptor* find(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = living_.find(handle);
    return found == living_.end() ? nullptr : found->second.get();
  }

  /// Null is nothing to destroy, as in the library.
  cublasStatus_t destroy(const char* where, const void* handle) {
    const std::lock_guard lock(mutex_);
    if (handle == nullptr || living_.erase(handle) == 1) return CUBLAS_STATUS_SUCCESS;
    return invalid(where, "{} is no living descriptor of this kind", handle);
  }

  size_t count() {
    const std::lock_guard lock(mutex_);
    return living_.size();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::unique_ptr<Descriptor>> living_;
};

/// Never destroyed: a caller's static objects may outlive ours.
template <class Descriptor>
Registry<Descriptor>& registry() {
  static auto* instance = new Registry<Descriptor>;
  return *instance;
}

template <class Descriptor>
cublasStatus_t set_of(const char* where, std::span<const Attribute> table, const void* handle, int id,
                      const void* value, size_t bytes) {
  Descriptor* descriptor = registry<Descriptor>().find(handle);
  if (descriptor == nullptr) return invalid(where, "{} is no living descriptor of this kind", handle);
  return set_attribute(where, table, descriptor->values, id, value, bytes);
}

template <class Descriptor>
cublasStatus_t get_of(const char* where, std::span<const Attribute> table, const void* handle, int id, void* value,
                      size_t bytes, size_t* written) {
  Descriptor* descriptor = registry<Descriptor>().find(handle);
  if (descriptor == nullptr) return invalid(where, "{} is no living descriptor of this kind", handle);
  return get_attribute(where, table, descriptor->values, id, value, bytes, written);
}

/// Sets what a constructor takes by the same rules as attributes.
template <class Value>
cublasStatus_t set_first(const char* where, std::span<const Attribute> table, AttributeValues& values, int id,
                         Value value) {
  return set_attribute(where, table, values, id, &value, sizeof(value));
}

}  // namespace

const Layout* find(cublasLtMatrixLayout_t handle) { return registry<Layout>().find(handle); }
const Operation* find(cublasLtMatmulDesc_t handle) { return registry<Operation>().find(handle); }
const Preference* find(cublasLtMatmulPreference_t handle) { return registry<Preference>().find(handle); }

size_t live_descriptors() {
  return registry<Layout>().count() + registry<Operation>().count() + registry<Preference>().count();
}

}  // namespace stepfuse::vgpu::lt

using namespace stepfuse::vgpu::lt;  // NOLINT(google-build-using-namespace): what follows has C names

namespace stepfuse::cuda {

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  const char* where = "cublasLtMatrixLayoutCreate";
  if (layout == nullptr) return invalid(where, "no place for the layout");
  Layout made{initial_values(kLayoutAttributes)};
  const std::span<const Attribute> table = kLayoutAttributes;
  for (const cublasStatus_t status : {set_first(where, table, made.values, CUBLASLT_MATRIX_LAYOUT_TYPE, type),
                                      set_first(where, table, made.values, CUBLASLT_MATRIX_LAYOUT_ROWS, rows),
                                      set_first(where, table, made.values, CUBLASLT_MATRIX_LAYOUT_COLS, cols),
                                      set_first(where, table, made.values, CUBLASLT_MATRIX_LAYOUT_LD, ld)}) {
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(registry<Layout>().add(made));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return registry<Layout>().destroy("cublasLtMatrixLayoutDestroy", layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  return set_of<Layout>("cublasLtMatrixLayoutSetAttribute", kLayoutAttributes, layout, attribute, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, void* value, size_t bytes,
                                                size_t* written) {
  return get_of<Layout>("cublasLtMatrixLayoutGetAttribute", kLayoutAttributes, layout, attribute, value, bytes,
                        written);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType scale) {
  const char* where = "cublasLtMatmulDescCreate";
  if (desc == nullptr) return invalid(where, "no place for the descriptor");
  Operation made{initial_values(kOperationAttributes)};
  const std::span<const Attribute> table = kOperationAttributes;
  for (const cublasStatus_t status : {set_first(where, table, made.values, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute),
                                      set_first(where, table, made.values, CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale)}) {
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(registry<Operation>().add(made));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return registry<Operation>().destroy("cublasLtMatmulDescDestroy", desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  return set_of<Operation>("cublasLtMatmulDescSetAttribute", kOperationAttributes, desc, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              void* value, size_t bytes, size_t* written) {
  return get_of<Operation>("cublasLtMatmulDescGetAttribute", kOperationAttributes, desc, attribute, value, bytes,
                           written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  if (preference == nullptr) return invalid("cublasLtMatmulPreferenceCreate", "no place for the preference");
  const Preference made{initial_values(kPreferenceAttributes)};
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(registry<Preference>().add(made));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return registry<Preference>().destroy("cublasLtMatmulPreferenceDestroy", preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  return set_of<Preference>("cublasLtMatmulPreferenceSetAttribute", kPreferenceAttributes, preference, attribute, value,
                            bytes);
}

}  // namespace stepfuse::cuda
