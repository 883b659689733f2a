// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/lt_fixture.h"

#include "tests/vgpu/lt/fake/fake_driver.h"
#include "tests/vgpu/lt/float16.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace stepfuse::vgpu::lt {
namespace {

size_t bytes_of(cudaDataType type) {
  if (type == CUDA_R_64F) return 8;
  return type == CUDA_R_32F ? 4 : 2;
}

/// Half the distance between neighbours of the type, relative to the number.
double roundoff(cudaDataType type) {
  if (type == CUDA_R_64F) return 0x1p-53;
  if (type == CUDA_R_32F) return 0x1p-24;
  return type == CUDA_R_16F ? 0x1p-11 : 0x1p-8;
}

double read(cudaDataType type, const void* from) {
  double wide = 0;
  float single = 0;
  uint16_t half = 0;
  if (type == CUDA_R_64F) {
    std::memcpy(&wide, from, 8);
    return wide;
  }
  if (type == CUDA_R_32F) {
    std::memcpy(&single, from, 4);
    return single;
  }
  std::memcpy(&half, from, 2);
  return type == CUDA_R_16F ? from_f16(half) : from_bf16(half);
}

void write(cudaDataType type, void* to, double value) {
  const auto single = static_cast<float>(value);
  const uint16_t half = type == CUDA_R_16F ? to_f16(single) : to_bf16(single);
  if (type == CUDA_R_64F) {
    std::memcpy(to, &value, 8);
  } else if (type == CUDA_R_32F) {
    std::memcpy(to, &single, 4);
  } else {
    std::memcpy(to, &half, 2);
  }
}

/// Multiples of 2^-6 in [-2, 2): exact in every type.
double next_value(uint64_t& seed) {
  seed = seed * 6364136223846793005 + 1442695040888963407;
  return static_cast<double>(static_cast<int64_t>((seed >> 33) % 256) - 128) * 0x1p-6;
}

}  // namespace

Memory::Memory(size_t bytes) : data_(static_cast<char*>(fake_allocate(bytes))), bytes_(bytes) {
  std::memset(data_, 0xff, bytes);
}

Memory::~Memory() {
  if (data_ != nullptr) fake_free(data_);
}

size_t Operand::offset(int batch_index, int64_t row, int64_t col) const {
  const int64_t element = batch_index * batch_stride + (row_major ? row * ld + col : col * ld + row);
  return static_cast<size_t>(element) * bytes_of(type);
}

double Operand::get(int batch_index, int64_t row, int64_t col) const {
  return read(type, memory.data() + offset(batch_index, row, col));
}

void Operand::set(int batch_index, int64_t row, int64_t col, double value) {
  write(type, memory.data() + offset(batch_index, row, col), value);
}

Operand Product::operand(cudaDataType type, int64_t rows, int64_t cols, int64_t padding, bool one) const {
  const int64_t length = spec.row_major ? cols : rows;
  const int64_t lines = spec.row_major ? rows : cols;
  Operand result{type, rows, cols, length + padding, 0, spec.row_major, spec.batch, nullptr, {}, {}};
  // 16 bytes in any type, so that a padded batch stays aligned.
  if (!one) result.batch_stride = (lines * result.ld + spec.batch_padding + 7) / 8 * 8;
  const int64_t elements = result.batch_stride * (spec.batch - 1) + (lines - 1) * result.ld + length;
  result.memory = Memory(static_cast<size_t>(elements) * bytes_of(type));
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&result.layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols),
                                       result.ld),
            CUBLAS_STATUS_SUCCESS);
  if (spec.row_major) set_layout(result, CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t{CUBLASLT_ORDER_ROW});
  set_layout(result, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t{spec.batch});
  if (spec.pointer_array) {
    set_layout(result, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, uint32_t{CUBLASLT_BATCH_MODE_POINTER_ARRAY});
    result.pointers = Memory(static_cast<size_t>(spec.batch) * sizeof(void*));
    for (int i = 0; i < spec.batch; ++i) {
      // Backwards, so that an array read as a matrix, or as a stride, is wrong.
      const char* pointer = result.memory.data() + result.offset(spec.batch - 1 - i, 0, 0);
      std::memcpy(result.pointers.data() + static_cast<size_t>(i) * sizeof(void*), &pointer, sizeof(pointer));
    }
  } else if (spec.batch > 1) {
    set_layout(result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, result.batch_stride);
  }
  return result;
}

void Product::fill(Operand& operand, uint64_t seed) const {
  for (int index = 0; index < spec.batch; ++index) {
    for (int64_t row = 0; row < operand.rows; ++row) {
      for (int64_t col = 0; col < operand.cols; ++col) operand.set(index, row, col, next_value(seed));
    }
  }
}

void Product::make_scalars() {
  const bool wide = spec.input == CUDA_R_64F;
  host_alpha_ = spec.alpha;
  host_beta_ = spec.beta;
  host_alpha_f32_ = static_cast<float>(spec.alpha);
  host_beta_f32_ = static_cast<float>(spec.beta);
  alpha = wide ? static_cast<const void*>(&host_alpha_) : &host_alpha_f32_;
  beta = wide ? static_cast<const void*>(&host_beta_) : &host_beta_f32_;
  if (!spec.device_scalars) return;
  set_operation(CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t{CUBLASLT_POINTER_MODE_DEVICE});
  scalars = Memory(16);
  std::memcpy(scalars.data(), alpha, wide ? 8 : 4);
  std::memcpy(scalars.data() + 8, beta, wide ? 8 : 4);
  alpha = scalars.data();
  beta = scalars.data() + 8;
}

Product::Product(const Spec& wanted) : spec(wanted) {
  const bool wide = spec.input == CUDA_R_64F;
  EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulDescCreate(&operation, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                     wide ? CUDA_R_64F : CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  set_preference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{1} << 30);
  if (spec.transposed_a) set_operation(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{CUBLAS_OP_T});
  if (spec.transposed_b) set_operation(CUBLASLT_MATMUL_DESC_TRANSB, int32_t{CUBLAS_OP_T});
  const int64_t padding = spec.padding;
  a = spec.transposed_a ? operand(spec.input, spec.k, spec.m, padding, spec.one_a)
                        : operand(spec.input, spec.m, spec.k, padding, spec.one_a);
  b = spec.transposed_b ? operand(spec.input, spec.n, spec.k, 2 * padding)
                        : operand(spec.input, spec.k, spec.n, 2 * padding);
  c = operand(spec.output, spec.m, spec.n, 3 * padding);
  d = operand(spec.output, spec.m, spec.n, spec.in_place ? 3 * padding : padding);
  fill(a, 1);
  fill(b, 2);
  if (!spec.nan_c) fill(c, 3);
  if (spec.nan_in_a) a.set(0, 0, 0, std::numeric_limits<double>::quiet_NaN());
  make_scalars();
  a_pointer = a.argument();
  b_pointer = b.argument();
  c_pointer = spec.null_c ? nullptr : c.argument();
  d_pointer = spec.in_place ? c.argument() : d.argument();
  c_before_ = c.memory.copy();
  d_before_ = d.memory.copy();
  for (int index = 0; index < spec.batch; ++index) {
    for (int64_t row = 0; row < spec.m; ++row) {
      for (int64_t col = 0; col < spec.n; ++col) c_values_.push_back(c.get(index, row, col));
    }
  }
}

Product::~Product() {
  for (const Operand* operand : {&a, &b, &c, &d}) cublasLtMatrixLayoutDestroy(operand->layout);
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatmulDescDestroy(operation);
  cublasLtDestroy(handle);
  fake_forget_all();
}

cublasStatus_t Product::heuristic(std::vector<cublasLtMatmulHeuristicResult_t>& results) {
  results.resize(16);
  int returned = -1;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, operation, a.layout, b.layout, c.layout,
                                                               d.layout, preference, 16, results.data(), &returned);
  results.resize(static_cast<size_t>(std::max(returned, 0)));
  return status;
}

std::vector<cublasLtMatmulHeuristicResult_t> Product::algorithms() {
  std::vector<cublasLtMatmulHeuristicResult_t> results;
  EXPECT_EQ(heuristic(results), CUBLAS_STATUS_SUCCESS);
  return results;
}

void Product::promise(uint32_t alignment) {
  for (int matrix = 0; matrix < 4; ++matrix) {
    set_preference(
        static_cast<cublasLtMatmulPreferenceAttributes_t>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + matrix),
        alignment);
  }
}

void Product::choose(const cublasLtMatmulHeuristicResult_t& result) {
  algo = result.algo;
  workspace_memory = result.workspaceSize == 0 ? Memory() : Memory(result.workspaceSize);
  workspace = workspace_memory.data();
  workspace_bytes = result.workspaceSize;
}

cublasStatus_t Product::call() {
  return cublasLtMatmul(handle, operation, alpha, a_pointer, a.layout, b_pointer, b.layout, beta, c_pointer, c.layout,
                        d_pointer, d.layout, &algo, workspace, workspace_bytes, nullptr);
}

double Product::op_a(int index, int64_t row, int64_t col) const {
  return spec.transposed_a ? a.get(index, col, row) : a.get(index, row, col);
}

double Product::op_b(int index, int64_t row, int64_t col) const {
  return spec.transposed_b ? b.get(index, col, row) : b.get(index, row, col);
}

/// k products and k - 1 sums in the arithmetic's type, in any order, are within k units of roundoff of the sum of
/// magnitudes; alpha, beta and their sum are 4 more; then D's one rounding. f16 has nothing finer than 2^-24.
void Product::expect_element(const std::string& what, int index, int64_t row, int64_t col) const {
  double sum = 0;
  double magnitude = 0;
  for (int64_t i = 0; i < spec.k; ++i) {
    const double product = op_a(index, row, i) * op_b(index, i, col);
    sum += product;
    magnitude += std::abs(product);
  }
  double expected = spec.alpha * sum;
  magnitude *= std::abs(spec.alpha);
  if (spec.beta != 0) {
    const double addend = spec.beta * c_values_[static_cast<size_t>((index * spec.m + row) * spec.n + col)];
    expected += addend;
    magnitude += std::abs(addend);
  }
  const Operand& result = spec.in_place ? c : d;
  const double arithmetic = roundoff(spec.input == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F);
  const double error = static_cast<double>(spec.k + 4) * arithmetic * magnitude;
  const double bound =
      error + roundoff(spec.output) * (std::abs(expected) + error) + (spec.output == CUDA_R_16F ? 0x1p-25 : 0.0);
  const double actual = result.get(index, row, col);
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << what << ": product " << index << " at " << row << ", " << col;
  } else {
    EXPECT_NEAR(actual, expected, bound) << what << ": product " << index << " at " << row << ", " << col;
  }
}

void Product::expect_result(const std::string& what) {
  Operand& result = spec.in_place ? c : d;
  std::vector<char> kept = spec.in_place ? c_before_ : d_before_;
  std::vector<char> after = result.memory.copy();
  for (int index = 0; index < spec.batch; ++index) {
    for (int64_t row = 0; row < spec.m; ++row) {
      for (int64_t col = 0; col < spec.n; ++col) {
        expect_element(what, index, row, col);
        std::memset(kept.data() + result.offset(index, row, col), 0, bytes_of(spec.output));
        std::memset(after.data() + result.offset(index, row, col), 0, bytes_of(spec.output));
      }
    }
  }
  EXPECT_TRUE(kept == after) << what << ": bytes between the elements of D were touched";
  EXPECT_TRUE(spec.in_place || c.memory.copy() == c_before_) << what << ": C was touched";
  EXPECT_EQ(fake_last_fault(), CUDA_SUCCESS) << vgpu_last_fault();
}

void LtTest::SetUp() {
  unsetenv("VGPU_STRICT");
  fake_set_results(CUDA_SUCCESS, CUDA_SUCCESS);
  fake_set_context(reinterpret_cast<CUcontext>(this));
  fake_forget_all();
  vgpu_lt_reset();
}

void LtTest::TearDown() { EXPECT_EQ(vgpu_lt_live_objects(), 0U); }

std::string complaint() {
  char text[1000];
  vgpu_lt_last_complaint(text, sizeof(text));
  return text;
}

}  // namespace stepfuse::vgpu::lt
