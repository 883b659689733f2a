// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/fake/fake_driver.h"
#include "tests/vgpu/lt/lt_fixture.h"

#include <set>

namespace stepfuse::vgpu::lt {
namespace {

using Results = std::vector<cublasLtMatmulHeuristicResult_t>;

class LtChoose : public LtTest {
 protected:
  static Spec large() {
    Spec spec;
    spec.input = CUDA_R_16BF;
    spec.m = 64;
    spec.n = 64;
    spec.k = 512;
    return spec;
  }
};

int id_of(const cublasLtMatmulHeuristicResult_t& result) {
  int id = 0;
  EXPECT_EQ(cublasLtMatmulAlgoConfigGetAttribute(&result.algo, CUBLASLT_ALGO_CONFIG_ID, &id, 4, nullptr),
            CUBLAS_STATUS_SUCCESS);
  return id;
}

template <class Value>
Value capability(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoCapAttributes_t attribute) {
  Value value{};
  size_t written = 0;
  EXPECT_EQ(cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, &value, sizeof(value), &written),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(written, sizeof(value));
  return value;
}

cublasStatus_t check(const Product& product, const cublasLtMatmulAlgo_t& algo,
                     cublasLtMatmulHeuristicResult_t& result) {
  return cublasLtMatmulAlgoCheck(product.handle, product.operation, product.a.layout, product.b.layout,
                                 product.c.layout, product.d.layout, &algo, &result);
}

TEST_F(LtChoose, OffersSeveralAndEachPassesTheCheck) {
  Product product(large());
  const Results results = product.algorithms();
  ASSERT_EQ(results.size(), 5U);
  std::set<size_t> workspaces;
  for (const auto& result : results) {
    EXPECT_EQ(result.state, CUBLAS_STATUS_SUCCESS);
    workspaces.insert(result.workspaceSize);
    cublasLtMatmulHeuristicResult_t checked{};
    ASSERT_EQ(check(product, result.algo, checked), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(checked.workspaceSize, result.workspaceSize);
    EXPECT_EQ(checked.wavesCount, result.wavesCount);
    EXPECT_EQ(checked.algo.data[0], 0U) << "the guide: algo is never updated";
  }
  EXPECT_EQ(workspaces.size(), 4U);  // two need none
}

TEST_F(LtChoose, ReturnsNoMoreThanRequested) {
  Product product(large());
  cublasLtMatmulHeuristicResult_t results[2] = {};
  int returned = 0;
  const auto ask = [&](int requested) {
    return cublasLtMatmulAlgoGetHeuristic(product.handle, product.operation, product.a.layout, product.b.layout,
                                          product.c.layout, product.d.layout, product.preference, requested, results,
                                          &returned);
  };
  EXPECT_EQ(ask(1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(returned, 1);
  EXPECT_EQ(results[1].algo.data[0], 0U);
  EXPECT_EQ(ask(0), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(LtChoose, HonoursTheWorkspace) {
  Product product(large());
  product.set_preference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{0});
  for (const auto& result : product.algorithms()) EXPECT_EQ(result.workspaceSize, 0U);
  EXPECT_EQ(product.algorithms().size(), 2U);
  product.set_preference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{20000});
  EXPECT_EQ(product.algorithms().size(), 3U);  // the reduction in place: 64 * 64 sums of 4 bytes and a counter
}

TEST_F(LtChoose, HonoursTheReductionMask) {
  Product product(large());
  const auto schemes = [&product](uint32_t mask) {
    product.set_preference(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, mask);
    std::set<uint32_t> found;
    for (const auto& result : product.algorithms()) {
      uint32_t scheme = 0;
      cublasLtMatmulAlgoConfigGetAttribute(&result.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, 4, nullptr);
      found.insert(scheme);
    }
    return found;
  };
  EXPECT_EQ(schemes(0), (std::set<uint32_t>{0}));
  EXPECT_EQ(schemes(CUBLASLT_REDUCTION_SCHEME_INPLACE), (std::set<uint32_t>{0, 1}));
  EXPECT_EQ(schemes(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE), (std::set<uint32_t>{0, 2}));
}

TEST_F(LtChoose, HonoursAlignmentStridesModesAndImplementations) {
  const auto only_plain = [](Product& product, const char* what) {
    const Results results = product.algorithms();
    ASSERT_EQ(results.size(), 1U) << what;
    EXPECT_EQ(id_of(results[0]), 7) << what;
  };
  for (int matrix = 0; matrix < 4; ++matrix) {
    Product product(large());
    product.set_preference(
        static_cast<cublasLtMatmulPreferenceAttributes_t>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + matrix),
        uint32_t{8});
    only_plain(product, "alignment");
  }
  Spec odd = large();
  odd.padding = 4;  // 8 bytes of bf16
  Product padded(odd);
  only_plain(padded, "leading dimension");
  Product implementation(large());
  implementation.set_preference(CUBLASLT_MATMUL_PREF_IMPL_MASK, ~kNumericalImplHmma);
  only_plain(implementation, "no tensor cores");
  Spec device = large();
  device.device_scalars = true;
  Product on_device(device);
  EXPECT_EQ(on_device.algorithms().size(), 4U);
  Spec arrays = large();
  arrays.pointer_array = true;
  arrays.batch = 2;
  Product of_pointers(arrays);
  EXPECT_EQ(of_pointers.algorithms().size(), 3U);
  Product few_waves(large());
  few_waves.set_preference(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, 1.5F / 148);  // one block, no split
  EXPECT_EQ(few_waves.algorithms().size(), 3U);
}

TEST_F(LtChoose, NoAlgorithmIsAStatusAndNoComplaint) {
  Product product({});
  Results results;
  product.promise(2);  // f32 needs 4
  EXPECT_EQ(product.heuristic(results), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_TRUE(results.empty());
  product.promise(16);
  EXPECT_EQ(product.heuristic(results), CUBLAS_STATUS_SUCCESS);
  vgpu_lt_force_no_algorithms(1);
  EXPECT_EQ(product.heuristic(results), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_TRUE(results.empty());
  vgpu_lt_force_no_algorithms(0);
  EXPECT_EQ(product.heuristic(results), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(vgpu_lt_complaint_count(), 0U);
}

TEST_F(LtChoose, ForeignAndDamagedAlgorithmsAreRefused) {
  Product product(large());
  product.choose(product.algorithms()[0]);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasLtMatmulAlgo_t good = product.algo;
  ASSERT_EQ(check(product, good, result), CUBLAS_STATUS_SUCCESS);
  vgpu_lt_set_device_stamp(0x90);
  EXPECT_EQ(check(product, good, result), CUBLAS_STATUS_ARCH_MISMATCH);
  EXPECT_EQ(product.call(), CUBLAS_STATUS_ARCH_MISMATCH);
  vgpu_lt_set_device_stamp(0);
  EXPECT_EQ(product.call(), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulAlgo_t other_version = good;
  vgpu_lt_corrupt_stamp(&other_version);
  EXPECT_EQ(check(product, other_version, result), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_NE(complaint().find("version"), std::string::npos);
  for (size_t word = 0; word < 8; ++word) {
    cublasLtMatmulAlgo_t damaged = good;
    damaged.data[word] ^= uint64_t{1} << 40;
    EXPECT_NE(check(product, damaged, result), CUBLAS_STATUS_SUCCESS) << word;
  }
  const cublasLtMatmulAlgo_t zeros{};
  EXPECT_EQ(check(product, zeros, result), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(LtChoose, AlgorithmOfAnotherProductDoesNotPass) {
  Product aligned(large());
  const auto fast = aligned.algorithms()[0];
  cublasLtMatmulHeuristicResult_t result{};
  Spec odd = large();
  odd.padding = 4;
  Product padded(odd);
  EXPECT_EQ(check(padded, fast.algo, result), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_NE(complaint().find("leading dimension 68"), std::string::npos);
  Spec other = large();
  other.output = CUDA_R_16BF;
  Product of_other_type(other);
  EXPECT_EQ(check(of_other_type, fast.algo, result), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_NE(complaint().find("other types"), std::string::npos);
}

TEST_F(LtChoose, IdsInitAndConfiguration) {
  Product product(large());
  int ids[8] = {};
  int returned = 0;
  ASSERT_EQ(cublasLtMatmulAlgoGetIds(product.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF,
                                     CUDA_R_32F, CUDA_R_32F, 8, ids, &returned),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(returned, 5);
  const auto init = [&](int id, cublasLtMatmulAlgo_t& algo) {
    return cublasLtMatmulAlgoInit(product.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F,
                                  CUDA_R_32F, id, &algo);
  };
  cublasLtMatmulAlgo_t algo{};
  EXPECT_EQ(init(99, algo), CUBLAS_STATUS_INVALID_VALUE);
  ASSERT_EQ(init(21, algo), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(capability<int32_t>(algo, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT), 1);
  EXPECT_EQ(capability<uint32_t>(algo, CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK), 2U);
  EXPECT_EQ(capability<uint32_t>(algo, CUBLASLT_ALGO_CAP_POINTER_MODE_MASK), 3U);
  EXPECT_EQ(capability<int32_t>(algo, CUBLASLT_ALGO_CAP_POINTER_ARRAY_BATCH_SUPPORT), 0);
  EXPECT_EQ(capability<int32_t>(algo, CUBLASLT_ALGO_CAP_UPLO_SUPPORT), 0);
  EXPECT_EQ(capability<uint32_t>(algo, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES), 16U);
  EXPECT_EQ(capability<uint64_t>(algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS),
            kNumericalImplHmma | kNumericalImplAccumulator32F | kNumericalImplInput16BF);
  size_t bytes = 1;
  EXPECT_EQ(cublasLtMatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_TILE_IDS, nullptr, 0, &bytes),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(bytes, 0U);
  const auto set = [&algo](cublasLtMatmulAlgoConfigAttributes_t attribute, uint32_t value) {
    return cublasLtMatmulAlgoConfigSetAttribute(&algo, attribute, &value, sizeof(value));
  };
  cublasLtMatmulHeuristicResult_t result{};
  EXPECT_EQ(set(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(check(product, algo, result), CUBLAS_STATUS_NOT_SUPPORTED) << "a split without a reduction";
  EXPECT_EQ(set(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 2), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(check(product, algo, result), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(result.workspaceSize, 64U * 64 * 4 * 2);
  EXPECT_EQ(set(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 5), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(set(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(set(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 3), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(set(CUBLASLT_ALGO_CONFIG_ID, 7), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(set(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 0), CUBLAS_STATUS_INVALID_VALUE) << "two bytes";
}

}  // namespace
}  // namespace stepfuse::vgpu::lt
