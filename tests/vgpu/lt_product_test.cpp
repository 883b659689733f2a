// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Products through cuBLASLt on the virtual device, which checks every attribute, and in gpu_tests on a real one. The
// numbers are small integers, so that each result is exact in any order of its sums.
#include "runtime/cuda/lt_product.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using codegen::GemmShape;
using ir::DType;
using testing::HasSubstr;

constexpr double kAlpha = 0.5, kBeta = -2;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A row-major matrix with gaps between its rows, which hold NaN.
struct Matrix {
  int64_t rows, columns, ld;
  std::vector<float> values;

  float at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * ld + j)]; }
  float& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * ld + j)]; }
};

Matrix make_matrix(int64_t rows, int64_t columns, int64_t ld, int64_t seed) {
  Matrix m{rows, columns, ld, std::vector<float>(static_cast<size_t>(rows * ld), kNaN)};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) m.at(i, j) = static_cast<float>((i * 7 + j * 3 + seed) % 9 - 4);
  return m;
}

/// Elements of a type as bytes; bf16 takes the upper half of an f32, which is exact here.
std::vector<std::byte> encode(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(ir::dtype_bytes(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    const auto half = static_cast<uint16_t>(bits >> 16);
    if (dtype == DType::F32) std::memcpy(&bytes[4 * i], &bits, 4);
    if (dtype == DType::BF16) std::memcpy(&bytes[2 * i], &half, 2);
  }
  return bytes;
}

class LtProducts : public testing::Test {
 protected:
  void SetUp() override {
    const auto driver = Driver::open(settings_);
    if (!driver) GTEST_SKIP() << driver.error().message;
    driver_ = *driver;
    context_ = CudaContext::open(*driver_, 0).value();
    scope_.emplace(CurrentContext::enter(*context_).value());
    lt_ = Lt::open(settings_).value();
    ok(call().cuStreamCreate(&stream_, cuda::CU_STREAM_NON_BLOCKING));
  }
  void TearDown() override {
    if (driver_ == nullptr) return;
    ok(call().cuStreamSynchronize(stream_));
    for (const cuda::CUdeviceptr address : allocated_) ok(call().cuMemFree(address));
    ok(call().cuStreamDestroy(stream_));
    lt_.reset();
  }

  const DriverFunctions& call() const { return driver_->call(); }
  static void ok(cuda::CUresult result) { ASSERT_EQ(result, cuda::CUDA_SUCCESS); }

  cuda::CUdeviceptr upload(const void* data, size_t bytes) {
    cuda::CUdeviceptr address = 0;
    ok(call().cuMemAlloc(&address, bytes));
    ok(call().cuMemcpyHtoD(address, data, bytes));
    allocated_.push_back(address);
    return address;
  }
  cuda::CUdeviceptr upload(const std::vector<Matrix>& batch, DType dtype) {
    std::vector<float> all;
    for (const Matrix& m : batch) all.insert(all.end(), m.values.begin(), m.values.end());
    const auto bytes = encode(all, dtype);
    return upload(bytes.data(), bytes.size());
  }
  cuda::CUdeviceptr pointers(cuda::CUdeviceptr first, int64_t count, int64_t stride_bytes) {
    std::vector<uint64_t> table;
    for (int64_t i = 0; i < count; ++i) table.push_back(first + static_cast<uint64_t>(i * stride_bytes));
    return upload(table.data(), table.size() * 8);
  }

  struct Case {
    int64_t m = 5, n = 7, k = 6, batch = 1;
    bool trans_a = false, trans_b = false, has_c = false, pointer_arrays = false, device_scalars = false;
    DType ab = DType::F32, d = DType::F32;
    int64_t gap = 0;  // between rows, in elements
  };

  LtRequest request_of(const Case& c) const {
    LtRequest r;
    GemmShape& s = r.shape;
    s.m = c.m;
    s.n = c.n;
    s.k = c.k;
    s.trans_a = c.trans_a;
    s.trans_b = c.trans_b;
    s.lda = (c.trans_a ? c.m : c.k) + c.gap;
    s.ldb = (c.trans_b ? c.k : c.n) + c.gap;
    s.ldc = s.ldd = c.n + c.gap;
    s.ab = c.ab;
    s.c = s.d = c.d;
    s.has_c = c.has_c;
    r.batch = c.batch;
    r.pointer_arrays = c.pointer_arrays;
    r.device_scalars = c.device_scalars;
    r.stride_a = s.lda * (c.trans_a ? c.k : c.m);
    r.stride_b = s.ldb * (c.trans_b ? c.n : c.k);
    r.stride_c = r.stride_d = s.ldd * c.m;
    r.alignment_a = lt_alignment(256, s.lda, c.ab);
    r.alignment_b = lt_alignment(256, s.ldb, c.ab);
    r.alignment_c = r.alignment_d = lt_alignment(256, s.ldd, c.d);
    return r;
  }

  /// Runs the product on the device and compares every element, and the gaps, with a plain loop.
  void check(const Case& c) {
    const LtRequest request = request_of(c);
    const GemmShape& s = request.shape;
    std::vector<Matrix> a, b, before, d;
    for (int64_t i = 0; i < c.batch; ++i) {
      a.push_back(make_matrix(c.trans_a ? c.k : c.m, c.trans_a ? c.m : c.k, s.lda, i));
      b.push_back(make_matrix(c.trans_b ? c.n : c.k, c.trans_b ? c.k : c.n, s.ldb, i + 2));
      before.push_back(make_matrix(c.m, c.n, s.ldc, i + 5));
      d.push_back({c.m, c.n, s.ldd, std::vector<float>(static_cast<size_t>(c.m * s.ldd), kNaN)});
    }
    const auto product = LtProduct::prepare(*lt_, request);
    ASSERT_TRUE(product) << product.error().message;
    LtOperands operands{upload(a, c.ab), upload(b, c.ab), upload(before, c.d), upload(d, c.d)};
    const cuda::CUdeviceptr result = operands.d;
    if (!c.has_c) operands.c = operands.d;
    if (c.pointer_arrays) {
      operands.a = pointers(operands.a, c.batch, request.stride_a * ir::dtype_bytes(c.ab));
      operands.b = pointers(operands.b, c.batch, request.stride_b * ir::dtype_bytes(c.ab));
      operands.c = pointers(operands.c, c.batch, request.stride_c * ir::dtype_bytes(c.d));
      operands.d = pointers(operands.d, c.batch, request.stride_d * ir::dtype_bytes(c.d));
    }
    const std::array<float, 2> factors{kAlpha, c.has_c ? static_cast<float>(kBeta) : 0.0F};
    const cuda::CUdeviceptr on_device = upload(factors.data(), sizeof factors);
    operands.alpha = c.device_scalars ? reinterpret_cast<const void*>(on_device) : &factors[0];
    operands.beta = c.device_scalars ? reinterpret_cast<const void*>(on_device + 4) : &factors[1];
    if (const size_t bytes = (*product)->workspace_bytes(); bytes != 0)
      operands.workspace = upload(std::vector<std::byte>(bytes).data(), bytes);
    const Outcome queued = (*product)->enqueue(operands, stream_);
    ASSERT_TRUE(queued) << queued.error().message;
    ok(call().cuStreamSynchronize(stream_));
    std::vector<std::byte> got(static_cast<size_t>(c.batch * c.m * s.ldd * ir::dtype_bytes(c.d)));
    ok(call().cuMemcpyDtoH(got.data(), result, got.size()));
    std::vector<float> want;
    for (size_t i = 0; i < d.size(); ++i) {
      multiply(c, a[i], b[i], before[i], d[i]);
      want.insert(want.end(), d[i].values.begin(), d[i].values.end());
    }
    EXPECT_EQ(got, encode(want, c.d)) << c.m << "x" << c.n << "x" << c.k;
  }

  static void multiply(const Case& c, const Matrix& a, const Matrix& b, const Matrix& before, Matrix& d) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < c.k; ++l)
          sum += double{c.trans_a ? a.at(l, i) : a.at(i, l)} * double{c.trans_b ? b.at(j, l) : b.at(l, j)};
        d.at(i, j) = static_cast<float>(kAlpha * sum + (c.has_c ? kBeta * double{before.at(i, j)} : 0));
      }
    }
  }

  const Settings settings_ = Settings::resolve({}, Settings::process_environment()).value();
  const Driver* driver_ = nullptr;
  std::unique_ptr<CudaContext> context_;
  std::optional<CurrentContext> scope_;
  std::unique_ptr<const Lt> lt_;
  cuda::CUstream stream_ = nullptr;
  std::vector<cuda::CUdeviceptr> allocated_;
};

TEST_F(LtProducts, EveryFormGivesThePlainLoopsNumbers) {
  for (const bool trans_a : {false, true})
    for (const bool trans_b : {false, true})
      for (const bool has_c : {false, true})
        for (const bool arrays : {false, true})
          for (const bool device : {false, true})
            check({.batch = 3,
                   .trans_a = trans_a,
                   .trans_b = trans_b,
                   .has_c = has_c,
                   .pointer_arrays = arrays,
                   .device_scalars = device,
                   .gap = trans_a == trans_b ? 0 : 2});
}

/// Cases of TransformerEngine pull request 845 and pytorch 122106: odd extents, rows that begin anywhere.
TEST_F(LtProducts, E06_OddExtentsInBf16) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{131, 249, 17}, {505, 131, 3}, {1, 8, 8}, {8, 1, 1}, {1, 1, 1}})
    check({.m = m, .n = n, .k = k, .has_c = true, .ab = DType::BF16, .d = DType::F32});
  check({.m = 16, .n = 24, .k = 8, .has_c = true, .ab = DType::BF16, .d = DType::F32});
}

/// beta = 0 must not read C (flashinfer issue 4724): D, which is passed as C then, holds NaN.
TEST_F(LtProducts, E01_WithoutCTheOldResultIsNotRead) {
  check({.m = 3, .n = 3, .k = 3});
  check({.m = 129, .n = 257, .k = 5, .device_scalars = true});
}

TEST_F(LtProducts, AStoredAlgorithmIsTakenAgainAndAForeignOneIsNot) {
  const LtRequest request = request_of({.m = 64, .n = 64, .k = 64});
  const auto first = LtProduct::prepare(*lt_, request).value();
  const auto again = LtProduct::prepare(*lt_, request, first->algorithm()).value();
  EXPECT_EQ(std::memcmp(&first->algorithm(), &again->algorithm(), sizeof(cuda::cublasLtMatmulAlgo_t)), 0);
  cuda::cublasLtMatmulAlgo_t foreign = first->algorithm();
  for (uint64_t& word : foreign.data) word = ~word;
  const auto other = LtProduct::prepare(*lt_, request, foreign).value();
  EXPECT_EQ(std::memcmp(&first->algorithm(), &other->algorithm(), sizeof(cuda::cublasLtMatmulAlgo_t)), 0);
}

TEST_F(LtProducts, EveryCandidateIsTakenAsAStoredAlgorithm) {
  const LtRequest request = request_of({.m = 64, .n = 96, .k = 128, .ab = DType::BF16, .d = DType::F32});
  const auto candidates = LtProduct::candidates(*lt_, request, 16).value();
  ASSERT_FALSE(candidates.empty());
  const auto heuristic = LtProduct::prepare(*lt_, request).value();
  EXPECT_EQ(std::memcmp(&heuristic->algorithm(), &candidates.front(), sizeof(cuda::cublasLtMatmulAlgo_t)), 0);
  for (const cuda::cublasLtMatmulAlgo_t& candidate : candidates) {
    const auto product = LtProduct::prepare(*lt_, request, candidate).value();
    EXPECT_EQ(std::memcmp(&product->algorithm(), &candidate, sizeof candidate), 0);
  }
  EXPECT_EQ(LtProduct::candidates(*lt_, request, 1)->size(), 1U);
}

TEST_F(LtProducts, E07_TypesWithoutAProductAreRefusedByShape) {
  LtRequest request = request_of({.m = 8, .n = 9, .k = 10});
  request.shape.ab = DType::Bool;
  EXPECT_THAT(LtProduct::prepare(*lt_, request).error().message, HasSubstr("8 x 9 x 10"));
}

}  // namespace
}  // namespace stepfuse::runtime
