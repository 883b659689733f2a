// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/fake/fake_driver.h"
#include "tests/vgpu/lt/lt_fixture.h"

#include <cstdlib>

namespace stepfuse::vgpu::lt {
namespace {

/// Descriptors of each kind.
class LtAttributes : public LtTest {
 protected:
  void SetUp() override {
    LtTest::SetUp();
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout_, CUDA_R_16BF, 4, 3, 5), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference_), CUBLAS_STATUS_SUCCESS);
  }
  void TearDown() override {
    cublasLtMatrixLayoutDestroy(layout_);
    cublasLtMatmulDescDestroy(operation_);
    cublasLtMatmulPreferenceDestroy(preference_);
    LtTest::TearDown();
  }

  cublasStatus_t set_layout(int attribute, int64_t value, size_t bytes) {
    return cublasLtMatrixLayoutSetAttribute(layout_, static_cast<cublasLtMatrixLayoutAttribute_t>(attribute), &value,
                                            bytes);
  }
  cublasStatus_t set_operation(int attribute, int64_t value, size_t bytes) {
    return cublasLtMatmulDescSetAttribute(operation_, static_cast<cublasLtMatmulDescAttributes_t>(attribute), &value,
                                          bytes);
  }
  cublasStatus_t set_preference(int attribute, int64_t value, size_t bytes) {
    return cublasLtMatmulPreferenceSetAttribute(
        preference_, static_cast<cublasLtMatmulPreferenceAttributes_t>(attribute), &value, bytes);
  }

  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

using LtAttributesDeath = LtAttributes;

// The widths were asked of cuBLASLt 13.1.0 with sizeInBytes = 0; a hole is an attribute that it does not have.
constexpr size_t kLayoutBytes[] = {4, 4, 8, 8, 8, 4, 8, 8, 4, 0, 0, 0};
constexpr size_t kOperationBytes[] = {4, 4, 4, 4, 4, 4, 4, 4, 8, 0, 8, 8, 8, 8, 8, 4, 0, 8, 8, 8, 8, 8};

TEST_F(LtAttributes, WidthsAreTheLibrarys) {
  for (int id = 0; id < static_cast<int>(std::size(kLayoutBytes)); ++id) {
    size_t bytes = 0;
    const auto status =
        cublasLtMatrixLayoutGetAttribute(layout_, static_cast<cublasLtMatrixLayoutAttribute_t>(id), nullptr, 0, &bytes);
    EXPECT_EQ(bytes, kLayoutBytes[id]) << id;
    EXPECT_EQ(status, kLayoutBytes[id] == 0 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS) << id;
  }
  for (int id = 0; id < static_cast<int>(std::size(kOperationBytes)); ++id) {
    size_t bytes = 0;
    const auto status =
        cublasLtMatmulDescGetAttribute(operation_, static_cast<cublasLtMatmulDescAttributes_t>(id), nullptr, 0, &bytes);
    EXPECT_EQ(bytes, kOperationBytes[id]) << id;
    EXPECT_EQ(status, kOperationBytes[id] == 0 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS) << id;
  }
}

TEST_F(LtAttributes, WhatIsSetIsRead) {
  EXPECT_EQ(set_layout(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 1 << 20, 8), CUBLAS_STATUS_SUCCESS);
  int64_t stride = 0;
  size_t written = 0;
  EXPECT_EQ(
      cublasLtMatrixLayoutGetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, 8, &written),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(stride, 1 << 20);
  EXPECT_EQ(written, 8U);
  uint64_t rows = 0;
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, 8, nullptr),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(rows, 4U);
  int32_t fill = 0;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(operation_, CUBLASLT_MATMUL_DESC_FILL_MODE, &fill, 4, nullptr),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(fill, CUBLAS_FILL_MODE_FULL);
  EXPECT_EQ(vgpu_lt_complaint_count(), 0U);
}

TEST_F(LtAttributes, WrongValuesAreRefusedLoudly) {
  struct Wrong {
    const char* words;  // in the complaint
    cublasStatus_t status;
  };
  const Wrong wrongs[] = {
      {"no attribute 30", set_layout(30, 0, 4)},
      {"no attribute 9", set_operation(9, 0, 8)},
      {"no attribute 2", set_preference(2, 0, 4)},
  };
  for (const Wrong& wrong : wrongs) EXPECT_EQ(wrong.status, CUBLAS_STATUS_INVALID_VALUE) << wrong.words;
  EXPECT_EQ(vgpu_lt_complaint_count(), std::size(wrongs));
  const auto refused = [](cublasStatus_t status, const std::string& words) {
    EXPECT_EQ(status, CUBLAS_STATUS_INVALID_VALUE) << words;
    EXPECT_NE(complaint().find(words), std::string::npos) << complaint();
  };
  refused(set_layout(CUBLASLT_MATRIX_LAYOUT_LD, 8, 4), "LAYOUT_LD has 8 bytes, got 4");
  refused(set_operation(CUBLASLT_MATMUL_DESC_TRANSA, 1, 8), "TRANSA has 4 bytes, got 8");
  refused(set_preference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1, 4), "WORKSPACE_BYTES has 8 bytes, got 4");
  refused(set_layout(CUBLASLT_MATRIX_LAYOUT_TYPE, 999, 4), "TYPE cannot be 999");
  refused(set_layout(CUBLASLT_MATRIX_LAYOUT_ORDER, -1, 4), "ORDER cannot be -1");
  refused(set_layout(CUBLASLT_MATRIX_LAYOUT_ROWS, 0, 8), "ROWS cannot be 0");
  refused(set_layout(CUBLASLT_MATRIX_LAYOUT_COLS, int64_t{1} << 31, 8), "COLS cannot be 2147483648");
  refused(set_layout(CUBLASLT_MATRIX_LAYOUT_LD, -4, 8), "LD cannot be -4");
  refused(set_layout(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 0, 4), "BATCH_COUNT cannot be 0");
  refused(set_layout(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, -8, 8), "OFFSET cannot be -8");
  refused(set_layout(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, 2, 4), "BATCH_MODE cannot be 2");
  refused(set_operation(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 0, 4), "COMPUTE_TYPE cannot be 0");
  refused(set_operation(CUBLASLT_MATMUL_DESC_POINTER_MODE, 5, 4), "POINTER_MODE cannot be 5");
  refused(set_operation(CUBLASLT_MATMUL_DESC_TRANSB, 3, 4), "TRANSB cannot be 3");
  refused(set_operation(CUBLASLT_MATMUL_DESC_TRANSC, 1, 4), "TRANSC cannot be 1");
  refused(set_operation(CUBLASLT_MATMUL_DESC_FILL_MODE, 3, 4), "FILL_MODE cannot be 3");
  refused(set_operation(CUBLASLT_MATMUL_DESC_EPILOGUE, 0, 4), "EPILOGUE cannot be 0");
  refused(set_operation(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, -1, 4), "SM_COUNT_TARGET cannot be -1");
  refused(set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 3, 4), "ALIGNMENT_B_BYTES cannot be 3");
  refused(set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 512, 4), "ALIGNMENT_D_BYTES cannot be 512");
  refused(set_preference(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 8, 4), "SCHEME_MASK cannot be 8");
  const float negative = -1;
  refused(cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, &negative, 4),
          "MAX_WAVES_COUNT cannot be");
  refused(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, nullptr, 4), "null pointer");
  char value[16];
  refused(cublasLtMatmulDescGetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, value, 8, nullptr),
          "TRANSA has 4 bytes, the buffer 8");
  refused(cublasLtMatmulDescGetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, value, 0, nullptr),
          "without a place");
}

TEST_F(LtAttributes, DescriptorsThatDoNotLive) {
  cublasLtMatrixLayout_t gone = nullptr;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&gone, CUDA_R_32F, 1, 1, 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(gone), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(gone), CUBLAS_STATUS_INVALID_VALUE);
  const uint64_t rows = 4;
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(gone, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, 8), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatrixLayoutCreate(nullptr, CUDA_R_32F, 1, 1, 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&gone, CUDA_R_32F, 0, 1, 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(nullptr), CUBLAS_STATUS_SUCCESS);
}

TEST_F(LtAttributesDeath, WhatTheLibraryKnowsAndWeDoNotEndsTheProcess) {
  const auto dies = [this](int attribute, int64_t value, size_t bytes) {
    EXPECT_DEATH(set_operation(attribute, value, bytes), "does not know this and will not guess") << attribute;
  };
  EXPECT_DEATH(set_layout(CUBLASLT_MATRIX_LAYOUT_ORDER, 2, 4), "ORDER = 2");
  EXPECT_DEATH(set_layout(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_8I, 4), "TYPE = 3");
  dies(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, 4);
  dies(CUBLASLT_MATMUL_DESC_FILL_MODE, CUBLAS_FILL_MODE_LOWER, 4);
  dies(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE_VECTOR, 4);
  dies(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 256, 8);
  dies(CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1, 1);
  dies(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_C, 4);
}

TEST_F(LtAttributes, UnknownIsOnlyRefusedWhenNotStrict) {
  setenv("VGPU_STRICT", "0", 1);
  EXPECT_EQ(set_operation(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, 4), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(vgpu_lt_complaint_count(), 1U);
}

TEST_F(LtAttributes, HandlesNeedADriverAndAContext) {
  cublasLtHandle_t handle = nullptr;
  fake_set_context(nullptr);
  EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
  fake_set_context(reinterpret_cast<CUcontext>(this));
  fake_set_results(CUDA_ERROR_NOT_INITIALIZED, CUDA_SUCCESS);
  EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_NE(complaint().find("cuInit"), std::string::npos);
  fake_set_results(CUDA_SUCCESS, CUDA_SUCCESS);
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtDestroy(nullptr), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtCreate(nullptr), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(LtAttributes, VersionStatusesAndCache) {
  EXPECT_EQ(cublasLtGetVersion(), 130100U);
  EXPECT_EQ(cublasLtGetCudartVersion(), 13000U);
  EXPECT_STREQ(cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
  EXPECT_STREQ(cublasLtGetStatusName(static_cast<cublasStatus_t>(99)), "unrecognized status");
  EXPECT_STRNE(cublasLtGetStatusString(CUBLAS_STATUS_SUCCESS), "");
  size_t before = 0;
  ASSERT_EQ(cublasLtHeuristicsCacheGetCapacity(&before), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtHeuristicsCacheSetCapacity(17), CUBLAS_STATUS_SUCCESS);
  size_t after = 0;
  ASSERT_EQ(cublasLtHeuristicsCacheGetCapacity(&after), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(after, 17U);
  ASSERT_EQ(cublasLtHeuristicsCacheSetCapacity(before), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
}  // namespace stepfuse::vgpu::lt
