// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// eigh, svd, qr and sortcols of the interpreter, against matrices whose decomposition is known and against what defines
// it.
#include "tests/unit/interpreter_fixture.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace stepfuse::ir {
namespace {

// What n sweeps of f64 arithmetic leave of an identity, for the sizes here.
constexpr double kTolerance = 1e-13;

std::string type_of(DType dtype, const std::vector<int64_t>& dims) {
  return fmt::format("{}[{}]", dtype_name(dtype), fmt::join(dims, ", "));
}

/// `op` on %a, whose result has the extents `dims`.
Tensor run_op(const std::string& op, const Tensor& a, const std::vector<int64_t>& dims, Bindings bindings = {},
              const std::string& more = "") {
  const Graph graph =
      parsed(fmt::format("recipe @t(%p: {} param, %a: {} state \"a\"{}) {{\n  %r = {}\n  return %r -> %p\n}}\n",
                         type_of(a.dtype, dims), type_of(a.dtype, a.dims), more, op));
  bindings.tensors["p"] = random_tensor(a.dtype, dims, 9);
  bindings.tensors["a"] = a;
  return run_for_p(graph, bindings, Evaluation::Typed);
}

struct View {
  const Tensor& tensor;
  int64_t row = 0;    // of the tensor's rows, the first one seen
  int64_t batch = 0;  // matrix of a batch
  double at(int64_t i, int64_t j) const {
    const int64_t cols = tensor.dims.back(), rows = tensor.dims[tensor.dims.size() - 2];
    return tensor.data[static_cast<size_t>((batch * rows + row + i) * cols + j)];
  }
};

/// The largest element of Q^T Q - I.
double orthogonality_error(const View& q, int64_t rows, int64_t cols) {
  double most = 0;
  for (int64_t i = 0; i < cols; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      double sum = i == j ? -1 : 0;
      for (int64_t k = 0; k < rows; ++k) sum += q.at(k, i) * q.at(k, j);
      most = std::max(most, std::abs(sum));
    }
  return most;
}

/// The largest element of U diag(s) V^T - A.
double product_error(const View& u, const View& s, const View& v, const View& a, int64_t rows, int64_t cols,
                     int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      double sum = -a.at(i, j);
      for (int64_t k = 0; k < count; ++k) sum += u.at(i, k) * s.at(0, k) * v.at(j, k);
      most = std::max(most, std::abs(sum));
    }
  return most;
}

Tensor symmetric(DType dtype, int64_t n, uint32_t seed) {
  Tensor a = random_tensor(dtype, {n, n}, seed);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j) a.data[static_cast<size_t>(j * n + i)] = a.data[static_cast<size_t>(i * n + j)];
  return a;
}

void expect_eigh(const Tensor& a, double tolerance) {
  const int64_t n = a.dims[0];
  const Tensor r = run_op("eigh %a : " + std::string(dtype_name(a.dtype)), a, {n + 1, n});
  const View q{r}, values{r, n};
  for (int64_t j = 1; j < n; ++j) EXPECT_LE(values.at(0, j - 1), values.at(0, j));
  EXPECT_LE(orthogonality_error(q, n, n), tolerance);
  EXPECT_LE(product_error(q, values, q, View{a}, n, n, n), tolerance * static_cast<double>(n));
}

TEST(LibraryOp, EighOfAKnownMatrix) {
  const Tensor r = run_op("eigh %a : f64", {DType::F64, {2, 2}, {2, 1, 1, 2}}, {3, 2});
  EXPECT_NEAR(r.data[4], 1, kTolerance);
  EXPECT_NEAR(r.data[5], 3, kTolerance);
  EXPECT_NEAR(r.data[0] * r.data[2], -0.5, kTolerance);
  EXPECT_NEAR(r.data[1] * r.data[3], 0.5, kTolerance);
}

TEST(LibraryOp, EighReadsTheLowerTriangle) {
  const Tensor r = run_op("eigh %a : f64", {DType::F64, {2, 2}, {2, 77, 1, 2}}, {3, 2});
  EXPECT_NEAR(r.data[4], 1, kTolerance);
}

TEST(LibraryOp, EighGivesTheMatrixBack) {
  for (const int64_t n : {1, 2, 5, 33}) expect_eigh(symmetric(DType::F64, n, 1), kTolerance);
  expect_eigh(symmetric(DType::F32, 12, 2), 1e-6);
}

TEST(LibraryOp, EighOfEqualEigenvaluesAndOfNothing) {
  Tensor a{DType::F64, {4, 4}, std::vector<double>(16)};
  expect_eigh(a, kTolerance);
  for (size_t i = 0; i < 4; ++i) a.data[5 * i] = i < 3 ? 2 : 7;
  expect_eigh(a, kTolerance);
  std::fill(a.data.begin(), a.data.end(), 1);  // rank 1
  expect_eigh(a, kTolerance);
}

TEST(LibraryOp, ExtremeScalesNeitherOverflowNorVanish) {
  for (const double scale : {1e300, 1e-300}) {
    const Tensor r = run_op("eigh %a : f64", {DType::F64, {2, 2}, {2 * scale, scale, scale, 2 * scale}}, {3, 2});
    EXPECT_NEAR(r.data[5] / scale, 3, kTolerance);
    const Tensor s = run_op("svd %a : f64", {DType::F64, {1, 2}, {3 * scale, 4 * scale}}, {4, 1});
    EXPECT_NEAR(s.data[1] / scale, 5, kTolerance);
    const Tensor q = run_op("qr %a : f64", {DType::F64, {2, 1}, {3 * scale, 4 * scale}}, {2, 1});
    EXPECT_NEAR(q.data[0], -0.6, kTolerance);
  }
}

void expect_svd(const Tensor& a, double tolerance) {
  const int64_t rows = a.dims[0], cols = a.dims[1], count = std::min(rows, cols);
  const Tensor r = run_op("svd %a : f64", a, {rows + 1 + cols, count});
  const View u{r}, values{r, rows}, v{r, rows + 1};
  for (int64_t j = 0; j < count; ++j) {
    EXPECT_GE(values.at(0, j), 0);
    EXPECT_GE(values.at(0, std::max<int64_t>(j - 1, 0)), values.at(0, j));
  }
  EXPECT_LE(orthogonality_error(u, rows, count), tolerance);
  EXPECT_LE(orthogonality_error(v, cols, count), tolerance);
  EXPECT_LE(product_error(u, values, v, View{a}, rows, cols, count), tolerance * static_cast<double>(count));
}

TEST(LibraryOp, SvdGivesTheMatrixBack) {
  for (const auto& dims : std::vector<std::vector<int64_t>>{{1, 1}, {1, 7}, {7, 1}, {6, 6}, {20, 9}, {9, 20}})
    expect_svd(random_tensor(DType::F64, dims, 3), kTolerance);
}

TEST(LibraryOp, SvdOfDeficientMatricesIsOrthogonal) {
  for (const auto& dims : std::vector<std::vector<int64_t>>{{3, 3}, {4, 2}, {2, 5}}) {
    const auto size = static_cast<size_t>(dims[0] * dims[1]);
    expect_svd({DType::F64, dims, std::vector<double>(size)}, kTolerance);
    expect_svd({DType::F64, dims, std::vector<double>(size, 1.0)}, kTolerance);
  }
}

TEST(LibraryOp, QrOfAKnownMatrixHasTheSignsOfHouseholder) {
  // R's diagonal: -sqrt(2) against a positive 1, then the last element as it is met.
  const Tensor q = run_op("qr %a : f64", {DType::F64, {2, 2}, {1, 0, 1, 1}}, {2, 2});
  const double half = std::sqrt(0.5);
  const std::vector<double> expected{-half, -half, -half, half};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(q.data[i], expected[i], kTolerance) << i;
  // A triangle is left alone, whatever the signs of its diagonal.
  const Tensor id = run_op("qr %a : f64", {DType::F64, {2, 2}, {-3, 5, 0, 2}}, {2, 2});
  EXPECT_EQ(id.data, (std::vector<double>{1, 0, 0, 1}));
}

TEST(LibraryOp, QrIsOrthogonalAndSpansTheColumns) {
  for (const auto& dims : std::vector<std::vector<int64_t>>{{1, 1}, {1, 6}, {6, 1}, {5, 5}, {30, 7}, {7, 30}}) {
    const Tensor a = random_tensor(DType::F64, dims, 4);
    const int64_t count = std::min(dims[0], dims[1]);
    const Tensor q = run_op("qr %a : f64", a, {dims[0], count});
    EXPECT_LE(orthogonality_error(View{q}, dims[0], count), kTolerance);
    for (int64_t i = 1; i < count; ++i)  // Q^T A is upper triangular
      for (int64_t j = 0; j < i; ++j) {
        double below = 0;
        for (int64_t k = 0; k < dims[0]; ++k) below += View{q}.at(k, i) * View{a}.at(k, j);
        EXPECT_LE(std::abs(below), 10 * kTolerance);
      }
  }
}

TEST(LibraryOp, EachMatrixOfABatchByItself) {
  const Tensor batch = random_tensor(DType::F64, {3, 5, 4}, 5);
  const Tensor q = run_op("qr %a : f64", batch, {3, 5, 4});
  for (int64_t b = 0; b < 3; ++b) {
    const auto first = batch.data.begin() + b * 20;
    const Tensor one = run_op("qr %a : f64", {DType::F64, {5, 4}, {first, first + 20}}, {5, 4});
    expect_same({q.data.begin() + b * 20, q.data.begin() + (b + 1) * 20}, one.data, "qr");
  }
}

TEST(LibraryOp, WhatIsNotFiniteGivesNaNEverywhereInItsMatrix) {
  for (const double bad : {kNaN, kInf, -kInf}) {
    Tensor a = random_tensor(DType::F64, {2, 3, 3}, 6);
    a.data[0] = bad;
    for (const auto& [op, rows] : {std::pair("eigh", 4), std::pair("svd", 7), std::pair("qr", 3)}) {
      const Tensor r = run_op(std::string(op) + " %a : f64", a, {2, rows, 3});
      for (size_t i = 0; i < r.data.size(); ++i) EXPECT_EQ(std::isnan(r.data[i]), i < r.data.size() / 2) << op;
    }
  }
}

TEST(LibraryOp, NothingIsComputedWhereWhenIsZero) {
  Tensor a = random_tensor(DType::F64, {3, 3}, 7);
  a.data[4] = kNaN;
  Bindings bindings;
  bindings.scalars["on"] = 0;
  const Tensor off = run_op("eigh %a, #on : f64", a, {4, 3}, bindings, ", #on: group");
  expect_same(off.data, std::vector<double>(12), "off");
  bindings.scalars["on"] = 1;
  const Tensor on = run_op("eigh %a, #on : f64", a, {4, 3}, bindings, ", #on: group");
  expect_same(on.data, std::vector<double>(12, kNaN), "on");
}

TEST(LibraryOp, SortcolsFollowsTheKeysAndKeepsEqualOnesInOrder) {
  Bindings bindings;
  bindings.tensors["k"] = {DType::F32, {1, 5}, {1, kNaN, 3, 1, kInf}};
  const Tensor r = run_op("sortcols %a, %k : f64", {DType::F64, {2, 5}, {1, 2, 3, 4, 5, 10, 20, 30, 40, 50}}, {2, 5},
                          bindings, ", %k: f32[1, 5] state \"k\"");
  expect_same(r.data, {2, 5, 3, 1, 4, 20, 50, 30, 10, 40}, "sortcols");
}

}  // namespace
}  // namespace stepfuse::ir
