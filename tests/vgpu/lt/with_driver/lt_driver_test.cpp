// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
/// The stand-in for cuBLASLt on the virtual driver.
#include "tests/vgpu/driver/test_driver.h"
#include "tests/vgpu/lt/exports.h"
#include "tests/vgpu/lt/lt_control.h"

#include <cmath>
#include <vector>

namespace stepfuse::vgpu::test {
namespace {

constexpr int64_t kSize = 8;  // of square f32 matrices
constexpr size_t kBytes = kSize * kSize * sizeof(float);

/// D = alpha A B + beta C on the device, with scalars there too.
class LtDriver : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    vgpu_lt_reset();
    stream_ = make_stream();
    for (CUdeviceptr* matrix : {&a_, &b_, &c_, &d_}) *matrix = allocate(kBytes);
    scalars_ = allocate(2 * sizeof(float));
    upload(a_, matrix([](int64_t row, int64_t col) { return row == col ? 2.0F : 0.0F; }));  // 2 I
    upload(b_, matrix([](int64_t row, int64_t col) { return static_cast<float>(row * kSize + col); }));
    upload(c_, matrix([](int64_t, int64_t) { return 1.0F; }));
    set_scalars(1, 0);
    make_descriptors();
  }
  void TearDown() override {
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatrixLayoutDestroy(layout_);
    cublasLtMatmulDescDestroy(operation_);
    cublasLtDestroy(handle_);
    EXPECT_EQ(vgpu_lt_live_objects(), 0U);
    DriverTest::TearDown();
  }

  template <class Value>
  static std::vector<float> matrix(Value value) {
    std::vector<float> result(kSize * kSize);
    for (int64_t col = 0; col < kSize; ++col) {
      for (int64_t row = 0; row < kSize; ++row) result[static_cast<size_t>(col * kSize + row)] = value(row, col);
    }
    return result;
  }
  void upload(CUdeviceptr to, const std::vector<float>& values) {
    ASSERT_CUDA(api().cuMemcpyHtoDAsync(to, values.data(), values.size() * sizeof(float), stream_));
  }
  void set_scalars(float alpha, float beta) { upload(scalars_, {alpha, beta}); }

  void make_descriptors() {
    ASSERT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    const int32_t mode = CUBLASLT_POINTER_MODE_DEVICE;
    cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof(mode));
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout_, CUDA_R_32F, kSize, kSize, kSize), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference_), CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulHeuristicResult_t result{};
    int returned = 0;
    ASSERT_EQ(cublasLtMatmulAlgoGetHeuristic(handle_, operation_, layout_, layout_, layout_, layout_, preference_, 1,
                                             &result, &returned),
              CUBLAS_STATUS_SUCCESS);
    algo_ = result.algo;
  }

  cublasStatus_t multiply(CUstream stream) {
    const auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
    return cublasLtMatmul(handle_, operation_, pointer(scalars_), pointer(a_), layout_, pointer(b_), layout_,
                          pointer(scalars_ + sizeof(float)), pointer(c_), layout_, pointer(d_), layout_, &algo_,
                          nullptr, 0, stream);
  }

  /// D must be 2 alpha B + beta.
  void expect_result(float alpha, float beta) {
    ASSERT_CUDA(api().cuStreamSynchronize(stream_));
    std::vector<float> result(kSize * kSize);
    ASSERT_EQ(api().peek(d_, result.data(), kBytes), 0);
    EXPECT_EQ(result, matrix([=](int64_t row, int64_t col) {
                return alpha * 2 * static_cast<float>(row * kSize + col) + beta;
              }));
  }

  CUstream stream_ = nullptr;
  CUdeviceptr a_ = 0, b_ = 0, c_ = 0, d_ = 0, scalars_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatmulAlgo_t algo_{};
};

TEST_F(LtDriver, RunsInTheOrderOfItsStream) {
  set_scalars(3, 0.5F);
  ASSERT_EQ(multiply(stream_), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(vgpu_lt_run_count(kSize, kSize, kSize), 0U) << "the driver is lazy";
  set_scalars(100, 100);  // later in the stream: must not matter
  expect_result(3, 0.5F);
  EXPECT_EQ(api().call_count("cublasLtMatmul"), 1U);
}

TEST_F(LtDriver, IsANodeOfACapturedGraphThatReadsScalarsAtEachLaunch) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_CUDA(api().cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_EQ(multiply(stream_), CUBLAS_STATUS_SUCCESS);
  ASSERT_CUDA(api().cuStreamEndCapture(stream_, &graph));
  ASSERT_CUDA(api().cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_CUDA(api().cuGraphDestroy(graph));
  for (const float alpha : {1.0F, 5.0F}) {
    set_scalars(alpha, 2);
    ASSERT_CUDA(api().cuGraphLaunch(exec, stream_));
    expect_result(alpha, 2);
  }
  EXPECT_EQ(vgpu_lt_matmul_count(kSize, kSize, kSize), 1U);
  EXPECT_EQ(vgpu_lt_run_count(kSize, kSize, kSize), 2U);
  ASSERT_CUDA(api().cuGraphExecDestroy(exec));
}

TEST_F(LtDriver, FreedMemoryLosesTheContext) {
  ASSERT_CUDA(api().cuStreamSynchronize(stream_));
  ASSERT_CUDA(api().cuMemFree(b_));
  ASSERT_EQ(multiply(stream_), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(api().cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(LtDriver, WithoutACurrentContextThereIsNoHandle) {
  ASSERT_CUDA(api().cuCtxSetCurrent(nullptr));
  cublasLtHandle_t none = nullptr;
  EXPECT_EQ(cublasLtCreate(&none), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(multiply(stream_), CUBLAS_STATUS_NOT_INITIALIZED);
  ASSERT_CUDA(api().cuCtxSetCurrent(context_));
}

TEST_F(LtDriver, AStreamThatIsGoneTakesNothing) {
  CUstream gone = make_stream();
  ASSERT_CUDA(api().cuStreamDestroy(gone));
  EXPECT_EQ(multiply(gone), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(vgpu_lt_matmul_count(0, 0, 0), 0U);
}

}  // namespace
}  // namespace stepfuse::vgpu::test
