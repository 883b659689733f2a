// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/lt/exports.h"
#include "tests/vgpu/lt/lt_control.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace stepfuse::vgpu::lt {

using namespace stepfuse::cuda;  // NOLINT(google-build-using-namespace): the interface under test

/// A product as a test wants it.
struct Spec {
  cudaDataType input = CUDA_R_32F;
  cudaDataType output = CUDA_R_32F;
  int64_t m = 5, n = 6, k = 7;
  bool transposed_a = false, transposed_b = false;
  bool row_major = false;  // all four
  int64_t padding = 0;     // elements between the lines of A and D, twice and three times as many in B and C
  int batch = 1;
  int64_t batch_padding = 0;
  bool pointer_array = false;
  bool one_a = false;  // one A for the whole batch, by a stride of 0
  double alpha = 1, beta = 0;
  bool device_scalars = false;
  bool in_place = false;  // D is C
  bool null_c = false;
  bool nan_c = false;
  bool nan_in_a = false;
};

/// Device memory that is freed in the end. Filled with 0xff: NaN in every type.
class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes);
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory();
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  std::vector<char> copy() const { return {data_, data_ + bytes_}; }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

/// One operand: its layout, its memory, and the values in it.
struct Operand {
  cudaDataType type;
  int64_t rows, cols, ld, batch_stride;
  bool row_major;
  int batch;
  cublasLtMatrixLayout_t layout = nullptr;
  Memory memory;
  Memory pointers;  // the array, if there is one

  double get(int batch_index, int64_t row, int64_t col) const;
  void set(int batch_index, int64_t row, int64_t col, double value);
  size_t offset(int batch_index, int64_t row, int64_t col) const;  // in bytes
  void* argument() const { return pointers.data() != nullptr ? pointers.data() : memory.data(); }
};

/// All that a call of cublasLtMatmul takes, each of which a test may spoil.
class Product {
 public:
  explicit Product(const Spec& wanted);
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product();

  /// Of the heuristic with all the workspace it likes.
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms();
  cublasStatus_t heuristic(std::vector<cublasLtMatmulHeuristicResult_t>& results);
  /// Tells the heuristic an alignment of all four matrices.
  void promise(uint32_t alignment);
  /// Takes `algo`, and workspace as the heuristic said.
  void choose(const cublasLtMatmulHeuristicResult_t& result);
  cublasStatus_t call();
  /// Compares D with a loop in double, and everything that is not D with what it was.
  void expect_result(const std::string& what);

  template <class Value>
  void set_preference(cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
    ASSERT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }
  template <class Value>
  void set_operation(cublasLtMatmulDescAttributes_t attribute, Value value) {
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)), CUBLAS_STATUS_SUCCESS);
  }
  template <class Value>
  static void set_layout(Operand& operand, cublasLtMatrixLayoutAttribute_t attribute, Value value) {
    ASSERT_EQ(cublasLtMatrixLayoutSetAttribute(operand.layout, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }

  Spec spec;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  Operand a, b, c, d;
  Memory scalars;  // alpha and beta, if they are on the device
  Memory workspace_memory;
  const void* alpha = nullptr;
  const void* beta = nullptr;
  const void* a_pointer = nullptr;
  const void* b_pointer = nullptr;
  const void* c_pointer = nullptr;
  void* d_pointer = nullptr;
  cublasLtMatmulAlgo_t algo{};
  void* workspace = nullptr;
  size_t workspace_bytes = 0;

 private:
  Operand operand(cudaDataType type, int64_t rows, int64_t cols, int64_t padding, bool one = false) const;
  void fill(Operand& operand, uint64_t seed) const;
  void make_scalars();
  double op_a(int index, int64_t row, int64_t col) const;
  double op_b(int index, int64_t row, int64_t col) const;
  void expect_element(const std::string& what, int index, int64_t row, int64_t col) const;

  double host_alpha_ = 0, host_beta_ = 0;
  float host_alpha_f32_ = 0, host_beta_f32_ = 0;
  std::vector<char> c_before_, d_before_;
  std::vector<double> c_values_;
};

/// A driver with a context, a stand-in without memories.
class LtTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

/// The last complaint.
std::string complaint();

}  // namespace stepfuse::vgpu::lt
