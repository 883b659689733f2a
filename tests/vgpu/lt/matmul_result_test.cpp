// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/fake/fake_driver.h"
#include "tests/vgpu/lt/lt_fixture.h"

#include <cmath>
#include <cstring>
#include <set>

namespace stepfuse::vgpu::lt {
namespace {

/// Runs a product with each algorithm that the heuristic names, each time with fresh memory.
void expect_all_algorithms(const Spec& spec, const std::string& what) {
  size_t count = 1;
  for (size_t i = 0; i < count; ++i) {
    Product product(spec);
    product.promise(16);
    const auto results = product.algorithms();
    ASSERT_FALSE(results.empty()) << what;
    count = results.size();
    product.choose(results[i]);
    const std::string name = what + ", algorithm " + std::to_string(results[i].algo.data[2] & 0xffff);
    ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS) << name;
    fake_run_all();
    product.expect_result(name);
  }
}

const char* name_of(cudaDataType type) {
  if (type == CUDA_R_64F) return "f64";
  if (type == CUDA_R_32F) return "f32";
  return type == CUDA_R_16F ? "f16" : "bf16";
}

class LtResult : public LtTest {};

TEST_F(LtResult, EveryTypeTransposeAndShape) {
  const std::pair<cudaDataType, cudaDataType> types[] = {{CUDA_R_32F, CUDA_R_32F},   {CUDA_R_64F, CUDA_R_64F},
                                                         {CUDA_R_16F, CUDA_R_16F},   {CUDA_R_16F, CUDA_R_32F},
                                                         {CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F}};
  const int64_t shapes[][3] = {{1, 1, 1}, {5, 6, 7}, {16, 2, 32}, {17, 3, 33}, {48, 64, 256}};
  for (const auto& [input, output] : types) {
    for (const auto& [m, n, k] : shapes) {
      for (int transposes = 0; transposes < 4; ++transposes) {
        Spec spec;
        spec.input = input;
        spec.output = output;
        spec.m = m;
        spec.n = n;
        spec.k = k;
        spec.transposed_a = (transposes & 1) != 0;
        spec.transposed_b = (transposes & 2) != 0;
        spec.alpha = 0.75;
        spec.beta = -1.5;
        expect_all_algorithms(spec, std::string(name_of(input)) + " to " + name_of(output) + " " + std::to_string(m) +
                                        "x" + std::to_string(n) + "x" + std::to_string(k) + " transposes " +
                                        std::to_string(transposes));
      }
    }
  }
}

TEST_F(LtResult, PaddingInPlaceRowMajorAndScalars) {
  for (int bits = 0; bits < 16; ++bits) {
    Spec spec;
    spec.input = CUDA_R_16BF;
    spec.m = 16;
    spec.n = 24;
    spec.k = 128;
    spec.alpha = 0.5;
    spec.beta = 2;
    spec.padding = (bits & 1) != 0 ? 8 : 0;
    spec.in_place = (bits & 2) != 0;
    spec.row_major = (bits & 4) != 0;
    spec.device_scalars = (bits & 8) != 0;
    expect_all_algorithms(spec, "variant " + std::to_string(bits));
  }
}

TEST_F(LtResult, Batches) {
  for (int bits = 0; bits < 16; ++bits) {
    Spec spec;
    spec.input = CUDA_R_16F;
    spec.output = CUDA_R_16F;
    spec.m = 8;
    spec.n = 16;
    spec.k = 136;
    spec.batch = 3;
    spec.beta = 1;
    spec.batch_padding = (bits & 1) != 0 ? 24 : 0;
    spec.padding = (bits & 2) != 0 ? 8 : 0;
    spec.pointer_array = (bits & 4) != 0;
    spec.one_a = !spec.pointer_array && (bits & 8) != 0;
    expect_all_algorithms(spec, "batch " + std::to_string(bits));
  }
}

/// The runtime's row-major tensors: D = A B by rows is D^T = B^T A^T by columns, operands swapped.
TEST_F(LtResult, RowMajorBySwappedOperands) {
  Spec rows;
  rows.row_major = true;
  rows.m = 3;
  rows.n = 4;
  rows.k = 5;
  Product by_rows(rows);
  by_rows.choose(by_rows.algorithms().back());
  Spec columns = rows;
  columns.row_major = false;
  std::swap(columns.m, columns.n);
  Product swapped(columns);
  swapped.choose(swapped.algorithms().back());
  swapped.a_pointer = by_rows.b_pointer;
  swapped.b_pointer = by_rows.a_pointer;
  ASSERT_EQ(by_rows.call(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(swapped.call(), CUBLAS_STATUS_SUCCESS);
  fake_run_all();
  by_rows.expect_result("by rows");
  EXPECT_TRUE(by_rows.d.memory.copy() == swapped.d.memory.copy());
}

TEST_F(LtResult, BetaZeroDoesNotReadC) {
  for (const bool device : {false, true}) {
    Spec spec;
    spec.m = 16;
    spec.nan_c = true;
    spec.device_scalars = device;
    expect_all_algorithms(spec, "NaN in C");
  }
  Spec none;
  none.m = 16;
  none.null_c = true;
  expect_all_algorithms(none, "no C");
}

TEST_F(LtResult, AlphaZeroReadsAAndB) {
  Spec spec;
  spec.alpha = 0;
  spec.beta = 1;
  spec.nan_in_a = true;
  Product product(spec);
  product.choose(product.algorithms().back());
  ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
  fake_run_all();
  product.expect_result("NaN times 0");  // the first row is NaN, as in the design: a product cannot be predicated
  EXPECT_TRUE(std::isnan(product.d.get(0, 0, 0)));
  EXPECT_FALSE(std::isnan(product.d.get(0, 1, 0)));
}

TEST_F(LtResult, DeviceScalarsAndPointersAreReadWhenItRuns) {
  Spec spec;
  spec.m = 8;
  spec.n = 8;
  spec.k = 8;
  spec.batch = 2;
  spec.pointer_array = true;
  spec.device_scalars = true;
  Product product(spec);
  product.promise(16);
  product.choose(product.algorithms().front());
  ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
  const float alpha = 3;
  const float beta = -1;
  std::memcpy(product.scalars.data(), &alpha, 4);
  std::memcpy(product.scalars.data() + 8, &beta, 4);
  product.spec.alpha = 3;
  product.spec.beta = -1;
  fake_run_all();
  product.expect_result("after the scalars changed");
  // Both products to one D: an array that changed after the call.
  std::memcpy(product.d.pointers.data(), product.d.pointers.data() + 8, 8);
  fake_run_all();
  EXPECT_EQ(fake_last_fault(), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_NE(std::string(vgpu_last_fault()).find("two matrices D"), std::string::npos);
}

TEST_F(LtResult, HostScalarsAreReadAtTheCall) {
  Product product({});
  product.choose(product.algorithms().back());
  float alpha = 2;
  product.alpha = &alpha;
  product.spec.alpha = 2;
  ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
  alpha = 100;
  fake_run_all();
  product.expect_result("alpha as it was");
}

/// Bits of D by algorithm: orders differ, and only a reduction in place is not repeatable.
TEST_F(LtResult, AlgorithmsDifferAndOnlyOneIsNotRepeatable) {
  Spec spec;
  spec.m = 64;
  spec.n = 64;
  spec.k = 1024;
  spec.alpha = 1.0 / 3;
  Product product(spec);
  for (int64_t i = 0; i < spec.m; ++i) {
    for (int64_t j = 0; j < spec.k; ++j) product.a.set(0, i, j, product.a.get(0, i, j) / 3);  // no longer exact
  }
  std::set<std::vector<char>> different;
  const auto results = product.algorithms();
  ASSERT_GE(results.size(), 5U);
  for (const auto& result : results) {
    product.choose(result);
    std::set<std::vector<char>> runs;
    for (int run = 0; run < 4; ++run) {
      ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
      fake_run_all();
      fake_forget_all();
      runs.insert(product.d.memory.copy());
    }
    uint32_t scheme = 0;
    ASSERT_EQ(cublasLtMatmulAlgoConfigGetAttribute(&product.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                                   sizeof(scheme), nullptr),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(runs.size() > 1, scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE) << "scheme " << scheme;
    different.insert(*runs.begin());
  }
  EXPECT_EQ(different.size(), results.size());
}

TEST_F(LtResult, WorkspaceIsSpoiled) {
  Spec spec;
  spec.k = 1024;
  spec.m = 8;
  spec.n = 8;
  Product product(spec);
  for (const auto& result : product.algorithms()) {
    product.choose(result);
    if (result.workspaceSize == 0) continue;
    std::memset(product.workspace, 0, product.workspace_bytes);
    ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
    const VgpuRange* writes = nullptr;
    ASSERT_EQ(fake_last_writes(&writes), 2U);  // D and the workspace
    EXPECT_EQ(writes[1].address, reinterpret_cast<uint64_t>(product.workspace));
    EXPECT_EQ(writes[1].bytes, result.workspaceSize);
    fake_run_all();
    fake_forget_all();
    for (size_t i = 0; i < result.workspaceSize; ++i) ASSERT_EQ(product.workspace_memory.data()[i], '\xff');
  }
}

TEST_F(LtResult, AnnouncesWhatItTouches) {
  Spec spec;
  spec.m = 8;
  spec.n = 3;
  spec.k = 4;
  spec.padding = 8;
  spec.beta = 1;
  Product product(spec);
  product.choose(product.algorithms().back());
  ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
  const VgpuRange* ranges = nullptr;
  EXPECT_EQ(fake_last_reads(&ranges), 4U + 3 + 3);  // columns of A, B and C: padding lies between them
  EXPECT_EQ(ranges[0].bytes, 8U * 4);
  EXPECT_EQ(ranges[4].bytes, 4U * 4);
  ASSERT_EQ(fake_last_writes(&ranges), 3U);
  EXPECT_EQ(ranges[2].address, reinterpret_cast<uint64_t>(product.d.memory.data()) + 2 * 16 * 4);
}

TEST_F(LtResult, MemoryThatIsTooShortIsAFault) {
  Spec spec;
  spec.m = spec.n = spec.k = 8;
  spec.padding = 4;
  spec.beta = 1;
  for (Operand Product::* operand : {&Product::a, &Product::b, &Product::c, &Product::d}) {
    Product product(spec);
    product.choose(product.algorithms().back());
    const Memory shorter((product.*operand).memory.bytes() - 1);
    if (operand == &Product::a) product.a_pointer = shorter.data();
    if (operand == &Product::b) product.b_pointer = shorter.data();
    if (operand == &Product::c) product.c_pointer = shorter.data();
    if (operand == &Product::d) product.d_pointer = shorter.data();
    ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
    fake_run_all();
    EXPECT_EQ(fake_last_fault(), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
}

TEST_F(LtResult, CountsAndDescribes) {
  Spec spec;
  spec.transposed_b = true;
  spec.alpha = 0.25;
  Product product(spec);
  product.choose(product.algorithms().back());
  ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
  fake_run_all();
  fake_run_all();
  EXPECT_EQ(vgpu_lt_matmul_count(5, 6, 7), 1U);
  EXPECT_EQ(vgpu_lt_run_count(5, 6, 7), 2U);
  EXPECT_EQ(vgpu_lt_run_count(0, 0, 0), 2U);
  EXPECT_EQ(vgpu_lt_run_count(6, 0, 0), 0U);
  EXPECT_EQ(vgpu_lt_heuristic_count(), 1U);
  VgpuLtMatmul last{};
  ASSERT_EQ(vgpu_lt_last_matmul(&last), 1);
  EXPECT_EQ(last.alpha, 0.25);
  EXPECT_EQ(last.row_stride[1], 6);  // B^T of 7 x 6: B is 6 x 7 by columns
  EXPECT_EQ(last.col_stride[1], 1);
  EXPECT_EQ(last.address[3], reinterpret_cast<uint64_t>(product.d_pointer));
}

}  // namespace
}  // namespace stepfuse::vgpu::lt
