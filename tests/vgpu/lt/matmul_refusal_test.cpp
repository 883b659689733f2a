// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
/// Each thing that cublasLtMatmul refuses, by the smallest call that has nothing else wrong.
#include "tests/vgpu/lt/fake/fake_driver.h"
#include "tests/vgpu/lt/lt_fixture.h"

#include <cstring>

namespace stepfuse::vgpu::lt {
namespace {

class LtRefusal : public LtTest {
 protected:
  /// A call that would succeed, spoilt by `spoil`.
  template <class Spoil>
  static void refuses(const Spec& spec, cublasStatus_t status, const std::string& words, Spoil spoil) {
    Product product(spec);
    product.promise(4);
    product.choose(product.algorithms().back());
    ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS) << words;
    fake_forget_all();
    spoil(product);
    EXPECT_EQ(product.call(), status) << words;
    EXPECT_NE(complaint().find(words), std::string::npos) << complaint();
    fake_run_all();
    const std::vector<char> untouched(product.d.memory.bytes(), '\xff');
    EXPECT_TRUE(product.d.memory.copy() == untouched) << words;
  }
};

using LtRefusalDeath = LtRefusal;

TEST_F(LtRefusal, Pointers) {
  const auto invalid = CUBLAS_STATUS_INVALID_VALUE;
  refuses({}, invalid, "A is null", [](Product& product) { product.a_pointer = nullptr; });
  refuses({}, invalid, "B is null", [](Product& product) { product.b_pointer = nullptr; });
  refuses({}, invalid, "D is null", [](Product& product) { product.d_pointer = nullptr; });
  refuses({}, invalid, "alpha is null", [](Product& product) { product.alpha = nullptr; });
  refuses({}, invalid, "beta is null", [](Product& product) { product.beta = nullptr; });
  Spec with_beta;
  with_beta.beta = 0.5;
  refuses(with_beta, invalid, "C is null and beta is 0.5", [](Product& product) { product.c_pointer = nullptr; });
  Spec device;
  device.device_scalars = true;
  refuses(device, invalid, "C is null, and beta on the device", [](Product& product) { product.c_pointer = nullptr; });
  refuses(device, invalid, "not aligned to 4 bytes",
          [](Product& product) { product.beta = static_cast<const char*>(product.beta) + 2; });
}

TEST_F(LtRefusal, AlignmentIsThatOfTheHeuristic) {
  Spec spec;
  spec.m = spec.n = spec.k = 8;
  for (int matrix = 0; matrix < 4; ++matrix) {
    Product product(spec);
    product.promise(16);
    product.choose(product.algorithms().back());  // even the one that could do with less
    ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
    const auto shift = [](const void* pointer) { return static_cast<const char*>(pointer) + 8; };
    if (matrix == 0) product.a_pointer = shift(product.a_pointer);
    if (matrix == 1) product.b_pointer = shift(product.b_pointer);
    if (matrix == 2) product.c_pointer = shift(product.c_pointer);
    if (matrix == 3) product.d_pointer = static_cast<char*>(product.d_pointer) + 8;
    EXPECT_EQ(product.call(), CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_NE(complaint().find("16 bytes that the heuristic was promised"), std::string::npos) << complaint();
  }
}

TEST_F(LtRefusal, AlignmentInsideArraysIsAFault) {
  Spec spec;
  spec.m = spec.n = spec.k = 8;
  spec.batch = 2;
  spec.pointer_array = true;
  Product product(spec);
  product.promise(16);
  product.choose(product.algorithms().back());
  uint64_t pointer = 0;
  std::memcpy(&pointer, product.b.pointers.data() + 8, 8);
  pointer += 4;
  std::memcpy(product.b.pointers.data() + 8, &pointer, 8);
  ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
  fake_run_all();
  EXPECT_EQ(fake_last_fault(), CUDA_ERROR_MISALIGNED_ADDRESS);
  EXPECT_NE(std::string(vgpu_last_fault()).find("B of product 1"), std::string::npos) << vgpu_last_fault();
}

TEST_F(LtRefusal, Layouts) {
  const auto invalid = CUBLAS_STATUS_INVALID_VALUE;
  refuses({}, invalid, "A is 5 x 7 in column order, its leading dimension 4 must be at least 5",
          [](Product& product) { Product::set_layout(product.a, CUBLASLT_MATRIX_LAYOUT_LD, int64_t{4}); });
  refuses({}, invalid, "op(B) is 7 x 5; D of 5 x 6",
          [](Product& product) { Product::set_layout(product.b, CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t{5}); });
  refuses({}, invalid, "op(B) is 6 x 7",
          [](Product& product) { product.set_operation(CUBLASLT_MATMUL_DESC_TRANSB, int32_t{CUBLAS_OP_T}); });
  refuses({}, invalid, "op(A) is 4 x 7",
          [](Product& product) { Product::set_layout(product.a, CUBLASLT_MATRIX_LAYOUT_ROWS, uint64_t{4}); });
  refuses({}, invalid, "C is 5 x 1",
          [](Product& product) { Product::set_layout(product.c, CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t{1}); });
  refuses({}, invalid, "A has 2 matrices in its batch, D has 1",
          [](Product& product) { Product::set_layout(product.a, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t{2}); });
  Spec batched;
  batched.batch = 2;
  refuses(batched, invalid, "written to one D", [](Product& product) {
    Product::set_layout(product.d, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t{0});
  });
  refuses(batched, invalid, "the batch of C is an array of pointers", [](Product& product) {
    Product::set_layout(product.c, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, uint32_t{CUBLASLT_BATCH_MODE_POINTER_ARRAY});
  });
  batched.pointer_array = true;
  refuses(batched, invalid, "both an array of pointers and a batch stride", [](Product& product) {
    Product::set_layout(product.a, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t{64});
  });
  Product product({});
  product.choose(product.algorithms().back());
  const cublasLtMatrixLayout_t kept = product.c.layout;
  product.c.layout = nullptr;
  EXPECT_EQ(product.call(), CUBLAS_STATUS_INVALID_VALUE);
  product.c.layout = kept;
}

TEST_F(LtRefusal, Overlap) {
  const auto invalid = CUBLAS_STATUS_INVALID_VALUE;
  Spec square;
  square.m = square.n = square.k = 4;
  refuses(square, invalid, "D overlaps A", [](Product& product) { product.d_pointer = product.a.memory.data(); });
  refuses(square, invalid, "D overlaps B", [](Product& product) { product.d_pointer = product.b.memory.data() + 60; });
  square.beta = 1;
  refuses(square, invalid, "D overlaps C", [](Product& product) { product.d_pointer = product.c.memory.data() + 4; });
  refuses(square, invalid, "D overlaps C", [](Product& product) {
    product.d_pointer = product.c.memory.data();  // the same memory in another layout
    Product::set_layout(product.d, CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t{CUBLASLT_ORDER_ROW});
  });
  square.batch = 2;
  refuses(square, invalid, "two matrices D of the batch overlap", [](Product& product) {
    Product::set_layout(product.d, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t{15});
  });
}

/// Tiles of one matrix: their columns alternate in memory, and no byte is shared.
TEST_F(LtRefusal, InterleavedTilesAreNoOverlap) {
  Spec spec;
  spec.m = spec.n = spec.k = 4;
  spec.padding = 4;
  Product product(spec);
  product.promise(16);
  product.choose(product.algorithms().back());
  Memory shared(4 * 8 * 4);
  std::memset(shared.data(), 0, shared.bytes());
  product.a_pointer = shared.data();
  product.d_pointer = shared.data() + 16;  // rows 4 to 7 of the same columns
  EXPECT_EQ(product.call(), CUBLAS_STATUS_SUCCESS) << complaint();
  product.d_pointer = shared.data() + 12;
  product.promise(4);
  product.choose(product.algorithms().back());
  EXPECT_EQ(product.call(), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(LtRefusal, Workspace) {
  Spec spec;
  spec.m = spec.n = 8;
  spec.k = 256;
  Product product(spec);
  cublasLtMatmulHeuristicResult_t needy{};
  for (const auto& result : product.algorithms()) {
    if (result.workspaceSize > needy.workspaceSize) needy = result;
  }
  ASSERT_GT(needy.workspaceSize, 0U);
  product.choose(needy);
  ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
  const auto refused = [&product](const char* words) {
    EXPECT_EQ(product.call(), CUBLAS_STATUS_INVALID_VALUE) << words;
    EXPECT_NE(complaint().find(words), std::string::npos) << complaint();
  };
  product.workspace_bytes = needy.workspaceSize - 1;
  refused("needs a workspace");
  product.workspace_bytes = needy.workspaceSize;
  product.workspace = product.workspace_memory.data() + 16;
  refused("not aligned to 256 bytes");
  product.workspace = nullptr;
  refused("workspace at null");
  product.workspace = product.a.memory.data();
  refused("the workspace overlaps a matrix");
}

TEST_F(LtRefusal, TypesThatTheTableDoesNotHave) {
  const auto not_supported = CUBLAS_STATUS_NOT_SUPPORTED;
  const auto type_of = [](Operand Product::* operand, cudaDataType type) {
    return [operand, type](Product& product) {
      Product::set_layout(product.*operand, CUBLASLT_MATRIX_LAYOUT_TYPE, uint32_t{static_cast<uint32_t>(type)});
    };
  };
  Spec half;
  half.input = CUDA_R_16F;
  refuses(half, not_supported, "A bf16, B f16", type_of(&Product::a, CUDA_R_16BF));
  refuses(half, not_supported, "C f16, D f32", type_of(&Product::c, CUDA_R_16F));
  refuses(half, not_supported, "C f32, D f16", type_of(&Product::d, CUDA_R_16F));
  refuses({}, not_supported, "B f64", type_of(&Product::b, CUDA_R_64F));
  refuses({}, not_supported, "scale f64",
          [](Product& product) { product.set_operation(CUBLASLT_MATMUL_DESC_SCALE_TYPE, int32_t{CUDA_R_64F}); });
  for (const auto compute : {CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_16F, CUBLAS_COMPUTE_32F_FAST_TF32}) {
    refuses({}, not_supported, "compute type", [compute](Product& product) {
      product.set_operation(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, int32_t{compute});
    });
  }
  // f32 to bf16 is in no row of the table.
  Spec narrow;
  narrow.output = CUDA_R_16BF;
  Product product(narrow);
  std::vector<cublasLtMatmulHeuristicResult_t> none;
  EXPECT_EQ(product.heuristic(none), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(LtRefusal, PedanticIsTheSame) {
  Product product({});
  product.set_operation(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, int32_t{CUBLAS_COMPUTE_32F_PEDANTIC});
  product.choose(product.algorithms().back());
  ASSERT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
  fake_run_all();
  product.expect_result("pedantic");
}

TEST_F(LtRefusal, AlgorithmsThatDoNotFit) {
  Spec spec;
  spec.m = spec.n = spec.k = 8;
  Product product(spec);
  for (const auto& result : product.algorithms()) {
    product.choose(result);
    uint32_t modes = 0;
    cublasLtMatmulAlgoCapGetAttribute(&product.algo, CUBLASLT_ALGO_CAP_POINTER_MODE_MASK, &modes, 4, nullptr);
    product.set_operation(CUBLASLT_MATMUL_DESC_POINTER_MODE, int32_t{CUBLASLT_POINTER_MODE_DEVICE});
    Memory scalars(8);
    product.alpha = scalars.data();
    product.beta = scalars.data() + 4;
    const bool can = (modes & CUBLASLT_POINTER_MODE_MASK_DEVICE) != 0;
    EXPECT_EQ(product.call(), can ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED);
  }
}

TEST_F(LtRefusal, HandlesContextsAndStreams) {
  Product product({});
  product.choose(product.algorithms().back());
  fake_set_context(reinterpret_cast<CUcontext>(&product));
  EXPECT_EQ(product.call(), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_NE(complaint().find("another context"), std::string::npos);
  fake_set_context(nullptr);
  EXPECT_EQ(product.call(), CUBLAS_STATUS_NOT_INITIALIZED);
  fake_set_context(reinterpret_cast<CUcontext>(this));
  fake_set_results(CUDA_SUCCESS, CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(product.call(), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_NE(complaint().find("error 201"), std::string::npos);
  fake_set_results(CUDA_SUCCESS, CUDA_SUCCESS);
  const cublasLtHandle_t kept = product.handle;
  product.handle = nullptr;
  EXPECT_EQ(product.call(), CUBLAS_STATUS_NOT_INITIALIZED);
  product.handle = kept;
  EXPECT_EQ(vgpu_lt_matmul_count(0, 0, 0), 0U);
  EXPECT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
}

TEST_F(LtRefusalDeath, NoAlgorithm) {
  Product product({});
  EXPECT_DEATH(cublasLtMatmul(product.handle, product.operation, product.alpha, product.a_pointer, product.a.layout,
                              product.b_pointer, product.b.layout, product.beta, product.c_pointer, product.c.layout,
                              product.d_pointer, product.d.layout, nullptr, nullptr, 0, nullptr),
               "no algorithm was given");
}

}  // namespace
}  // namespace stepfuse::vgpu::lt
