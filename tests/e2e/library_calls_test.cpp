// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// eigh, svd, qr and sortcols through the whole compiler on the CPU, against the interpreter, which shares no code with
// it. What is compared is what the definitions determine: products, orthogonality, values, Q of a QR.
#include "tests/e2e/optimizer_run.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

namespace stepfuse::tests {

namespace {

using ir::DType;
using ir::Mode;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Case {
  const char* name;
  std::vector<int64_t> shape;  // a matrix or a batch of them
  std::vector<double> values;  // empty: standard normal numbers
  DType dtype = DType::F32;
  double scale = 1;
};

void PrintTo(const Case& each, std::ostream* stream) { *stream << each.name; }

int64_t rows_of(const Case& each) { return each.shape[each.shape.size() - 2]; }
int64_t cols_of(const Case& each) { return each.shape.back(); }

std::vector<double> elements_of(const Case& each, uint64_t seed) {
  const int64_t count = compiler::element_count(each.shape);
  std::vector<double> values = each.values;
  if (values.empty()) values = to_doubles(each.dtype, random_tensor(each.dtype, count, seed));
  for (double& value : values) value *= each.scale;
  return values;
}

/// A rule that puts `body`'s %r, a matrix like %g, in the place of its parameter.
std::string rule_text(const Case& each, const std::string& body) {
  const std::string type = fmt::format("{}[{}]", dtype_name(each.dtype), fmt::join(each.shape, ", "));
  return fmt::format("// stepfuse-ir v1\nrecipe @t(%p: {} param, %g: {} grad) {{\n{}  return %r -> %p\n}}\n", type,
                     type, body);
}

Result<std::vector<double>> run_body(const Case& each, const std::string& body, const std::string& target,
                                     const std::vector<double>& grad, int threads = 2) {
  const TemporaryFolder folder;
  const std::string path = folder / "rule.sfir";
  std::ofstream(path) << rule_text(each, body);
  const Bytes param(grad.size() * static_cast<size_t>(ir::dtype_bytes(each.dtype)));
  STEPFUSE_ASSIGN(const RunResult result,
                  run_rule(path, {}, {each.shape, each.dtype, each.dtype, each.dtype}, param,
                           from_doubles(each.dtype, grad), {Mode::Default, target, threads, {}, 1}));
  return to_doubles(each.dtype, result.param);
}

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

/// The CPU's result against the interpreter's. Backward stable decompositions give their matrix back up to a few
/// roundings per side, which a product of them keeps: 8 sqrt(n) roundings of the largest element are allowed.
void expect_agrees(const Case& each, const std::string& body, const std::vector<double>& grad, double size) {
  const auto cpu = run_body(each, body, "cpu", grad);
  const auto interpreted = run_body(each, body, "interp", grad);
  ASSERT_TRUE(cpu.has_value()) << cpu.error().message;
  ASSERT_TRUE(interpreted.has_value()) << interpreted.error().message;
  const double rounding = each.dtype == DType::F64 ? 0x1p-53 : 0x1p-24;
  const double side = static_cast<double>(std::max(rows_of(each), cols_of(each)));
  const double allowed = 8 * std::sqrt(side) * rounding * size;
  for (size_t i = 0; i < cpu->size(); ++i) EXPECT_NEAR((*cpu)[i], (*interpreted)[i], allowed) << "element " << i;
}

class Decompositions : public testing::TestWithParam<Case> {};

/// A = U diag(s) V^T again: in both, up to rounding, the matrix itself.
TEST_P(Decompositions, SvdGivesTheMatrixBack) {
  const Case& each = GetParam();
  const int64_t rows = rows_of(each), cols = cols_of(each), dim = static_cast<int64_t>(each.shape.size()) - 2;
  const std::string dtype(dtype_name(each.dtype));
  const std::string body = fmt::format(
      "  %f = svd %g : {0}\n  %u = slice %f {{dim={1}, begin=0, end={2}}} : {0}\n"
      "  %s = slice %f {{dim={1}, begin={2}, end={3}}} : {0}\n  %v = slice %f {{dim={1}, begin={3}, end={4}}} : {0}\n"
      "  %us = mul %u, %s : {0}\n  %r = matmul %us, %v {{tb}} : {0}\n",
      dtype, dim, rows, rows + 1, rows + 1 + cols);
  const std::vector<double> grad = elements_of(each, 1);
  expect_agrees(each, body, grad, largest(grad) * std::sqrt(static_cast<double>(std::min(rows, cols))));
}

/// Q Q^T A projects on the columns' span; for a matrix with no more columns than rows it is A.
TEST_P(Decompositions, QrSpansTheMatrix) {
  const Case& each = GetParam();
  const std::string dtype(dtype_name(each.dtype));
  const std::string body =
      fmt::format("  %q = qr %g : {0}\n  %c = matmul %q, %g {{ta}} : {0}\n  %r = matmul %q, %c : {0}\n", dtype);
  const std::vector<double> grad = elements_of(each, 2);
  expect_agrees(each, body, grad,
                largest(grad) * std::sqrt(static_cast<double>(std::max(rows_of(each), cols_of(each)))));
}

/// The positive part of the symmetric A A^T's square root would need more; Q diag(l) Q^T A is (A A^T) A.
TEST_P(Decompositions, EighGivesTheGramMatrixBack) {
  const Case& each = GetParam();
  const int64_t n = rows_of(each), dim = static_cast<int64_t>(each.shape.size()) - 2;
  const std::string dtype(dtype_name(each.dtype));
  const std::string body = fmt::format(
      "  %a = matmul %g, %g {{tb}} : {0}\n  %f = eigh %a : {0}\n  %q = slice %f {{dim={1}, begin=0, end={2}}} : {0}\n"
      "  %l = slice %f {{dim={1}, begin={2}, end={3}}} : {0}\n  %ql = mul %q, %l : {0}\n"
      "  %c = matmul %q, %g {{ta}} : {0}\n  %r = matmul %ql, %c : {0}\n",
      dtype, dim, n, n + 1);
  const std::vector<double> grad = elements_of(each, 3);
  const double sides = static_cast<double>(rows_of(each)) * static_cast<double>(cols_of(each));
  expect_agrees(each, body, grad, std::pow(largest(grad), 3) * sides);
}

TEST_P(Decompositions, QIsOrthogonal) {
  const Case& each = GetParam();
  if (rows_of(each) < cols_of(each)) GTEST_SKIP() << "Q^T Q has not the parameter's shape";
  const std::string dtype(dtype_name(each.dtype));
  const std::string body =
      fmt::format("  %q = qr %g : {0}\n  %i = matmul %q, %q {{ta}} : {0}\n  %r = matmul %g, %i : {0}\n", dtype);
  const std::vector<double> grad = elements_of(each, 4);
  expect_agrees(each, body, grad, largest(grad) * std::sqrt(static_cast<double>(cols_of(each))));
}

INSTANTIATE_TEST_SUITE_P(All, Decompositions,
                         testing::ValuesIn(std::vector<Case>{
                             {"one", {1, 1}, {}},
                             {"row", {1, 9}, {}},
                             {"column", {9, 1}, {}},
                             {"square", {16, 16}, {}},
                             {"wide", {12, 31}, {}},
                             {"tall", {70, 33}, {}},
                             {"blocked", {150, 130}, {}},  // beyond LAPACK's unblocked sizes
                             {"batch", {3, 6, 5}, {}},
                             {"f64", {20, 30}, {}, DType::F64},
                             {"zero", {5, 4}, std::vector<double>(20)},
                             {"rank_one", {4, 4}, std::vector<double>(16, 1.0)},
                             {"equal_values", {3, 3}, {2, 0, 0, 0, 2, 0, 0, 0, 2}},
                             {"small", {8, 8}, {}, DType::F32, 0x1p-40},
                             {"large", {8, 8}, {}, DType::F32, 0x1p40}}),
                         [](const auto& p) { return std::string(p.param.name); });

/// Signs included: the columns of a well-conditioned matrix determine Q.
TEST(LibraryCalls, QHasTheSignsOfHouseholder) {
  const Case each{"", {24, 24}, {}, DType::F64};
  std::vector<double> grad = elements_of(each, 5);
  for (size_t i = 0; i < 24; ++i) grad[25 * i] += 10;
  expect_agrees(each, "  %r = qr %g : f64\n", grad, 16);
}

TEST(LibraryCalls, SortcolsIsExact) {
  const Case each{"", {3, 7}, {}};
  const std::vector<double> grad = elements_of(each, 6);
  const std::string body = "  %k = sum %g {cols} : f32\n  %r = sortcols %g, %k : f32\n";
  const auto cpu = run_body(each, body, "cpu", grad);
  const auto interpreted = run_body(each, body, "interp", grad);
  ASSERT_TRUE(cpu.has_value() && interpreted.has_value());
  EXPECT_EQ(*cpu, *interpreted);
  EXPECT_NE(*cpu, grad);
}

TEST(LibraryCalls, NaNKeysComeFirstAndEqualOnesKeepTheirOrder) {
  const Case each{"", {1, 6}, {}};
  for (const char* target : {"cpu", "interp"}) {
    const auto sorted = run_body(each, "  %r = sortcols %g, %g : f32\n", target, {1, kNaN, -2, 1, kNaN, 9});
    ASSERT_TRUE(sorted.has_value()) << sorted.error().message;
    EXPECT_TRUE(std::isnan((*sorted)[0]) && std::isnan((*sorted)[1])) << target;
    EXPECT_EQ(std::vector<double>(sorted->begin() + 2, sorted->end()), (std::vector<double>{9, 1, 1, -2})) << target;
  }
}

/// One matrix of the batch is not finite: it ends, as NaN, and the other is as ever.
TEST(LibraryCalls, WhatIsNotFiniteGivesNaNInItsMatrixAlone) {
  const Case each{"", {2, 4, 4}, {}};
  for (const double bad : {kNaN, std::numeric_limits<double>::infinity()})
    for (const char* op : {"eigh", "svd", "qr"}) {
      std::vector<double> grad = elements_of(each, 7);
      grad[9] = bad;
      const std::string body = fmt::format("  %f = {} %g : f32\n  %r = slice %f {{dim=1, begin=0, end=4}} : f32\n", op);
      const auto result = run_body(each, body, "cpu", grad);
      ASSERT_TRUE(result.has_value()) << result.error().message;
      for (size_t i = 0; i < 32; ++i) EXPECT_EQ(std::isnan((*result)[i]), i < 16) << op << " at " << i;
    }
}

TEST(LibraryCalls, NothingIsComputedWhereWhenIsZero) {
  const Case each{"", {2, 2}, {}};
  for (const char* target : {"cpu", "interp"}) {
    const auto off = run_body(each, "  %r = qr %g, 0 : f32\n", target, {kNaN, 1, 2, 3});
    ASSERT_TRUE(off.has_value()) << off.error().message;
    EXPECT_EQ(*off, std::vector<double>(4)) << target;
  }
}

/// Bits do not depend on who calls: matrices are whole tasks.
TEST(LibraryCalls, AnyNumberOfThreadsGivesTheSameBits) {
  const Case each{"", {5, 40, 20}, {}};
  const std::vector<double> grad = elements_of(each, 8);
  const auto one = run_body(each, "  %r = qr %g : f32\n", "cpu", grad, 1);
  ASSERT_TRUE(one.has_value()) << one.error().message;
  for (const int threads : {2, 3, 5}) EXPECT_EQ(*run_body(each, "  %r = qr %g : f32\n", "cpu", grad, threads), *one);
}

TEST(LibraryCalls, AreCountedByThemselves) {
  const TemporaryFolder folder;
  const std::string path = folder / "rule.sfir";
  std::ofstream(path) << rule_text({"", {6, 4}, {}}, "  %q = qr %g : f32\n  %r = sub %p, %q : f32\n");
  for (const char* target : {"cpu", "interp"}) {
    const auto result = run_rule(path, {}, {{6, 4}}, random_tensor(DType::F32, 24, 1), random_tensor(DType::F32, 24, 2),
                                 {Mode::Default, target, 1, {}, 1});
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_EQ(result->launched, (compiler::LaunchCounts{1, 0, 0, 1})) << target;
    EXPECT_EQ(result->planned.fused, result->launched);
    EXPECT_EQ(result->planned.library_flops, 4.0 * 6 * 16 - 4.0 * 64 / 3);
  }
}

}  // namespace

}  // namespace stepfuse::tests
