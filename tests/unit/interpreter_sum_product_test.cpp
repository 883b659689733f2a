// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/interpreter_fixture.h"

#include <cmath>
#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::ir {
namespace {

using ::testing::ElementsAre;

// --------------------------------------------------------------------------------------------------------

/// The canonical sum, written once more from its definition: element i of a chunk is in lane i % 64.
template <class T>
T canonical(const std::vector<T>& values, const std::function<T(T, T)>& accumulate) {
  std::function<T(size_t, size_t, size_t)> lanes = [&](size_t chunk, size_t lane, size_t step) -> T {
    if (step < 64) return lanes(chunk, lane, step * 2) + lanes(chunk, lane + step, step * 2);
    T sum = 0;
    for (size_t i = chunk * 4096 + lane; i < std::min(values.size(), (chunk + 1) * 4096); i += 64)
      sum = accumulate(sum, values[i]);
    return sum;
  };
  // Halves of 32, 16, ... pair lane l with l + 32 first, so the tree splits by the lowest bit at its root.
  std::vector<T> level;
  for (size_t chunk = 0; chunk * 4096 < values.size(); ++chunk) level.push_back(lanes(chunk, 0, 1));
  while (level.size() > 1) {
    std::vector<T> next;
    for (size_t i = 0; i < level.size(); i += 2)
      next.push_back(i + 1 < level.size() ? level[i] + level[i + 1] : level[i]);
    level = next;
  }
  return level.empty() ? T(0) : level[0];
}

/// %r = op %x, of rank-1 or rank-3 x, as f64 so that nothing is rounded away.
std::vector<double> reduced(const std::string& op, const Tensor& x, Evaluation evaluation,
                            const std::string& dtype = "f64") {
  const std::string dims = fmt::format("[{}]", fmt::join(x.dims, ", "));
  const Graph graph =
      parsed(fmt::format("recipe @t(%p: {}{} param, %x: {}{} grad) {{\n  %n = {} : {}\n  %z = mul %p, 0 : {}\n"
                         "  %r = add %z, %n : {}\n  return %r -> %p\n}}\n",
                         dtype, dims, dtype_name(x.dtype), dims, op, dtype, dtype, dtype));
  Bindings bindings;
  Tensor p = x;
  p.dtype = *parse_dtype(dtype);
  for (double& value : p.data) value = 0;
  bindings.tensors = {{"p", p}, {"x", x}};
  return run_for_p(graph, bindings, evaluation).data;
}

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

class CanonicalSum : public ::testing::TestWithParam<int64_t> {};

TEST_P(CanonicalSum, HasItsDefinedOrder) {
  const Tensor x = random_tensor(DType::F32, {GetParam()}, 7);
  const auto plain = [](float sum, float value) { return sum + value; };
  const auto square = [](double sum, double value) { return std::fma(value, value, sum); };
  const double sum = static_cast<double>(canonical<float>(floats(x.data), plain));
  const double squares = canonical<double>(x.data, square);
  EXPECT_EQ(reduced("sum %x {all}", x, Evaluation::Typed, "f32").at(0), sum);
  EXPECT_EQ(reduced("sumsq %x {all}", x, Evaluation::Typed).at(0), squares);
  EXPECT_EQ(reduced("norm %x {all}", x, Evaluation::Typed).at(0), std::sqrt(squares));
  EXPECT_EQ(reduced("norm %x {all}", x, Evaluation::Typed, "f32").at(0),
            static_cast<double>(static_cast<float>(std::sqrt(squares))));
}

INSTANTIATE_TEST_SUITE_P(All, CanonicalSum,
                         ::testing::Values(1, 2, 63, 64, 65, 4095, 4096, 4097, 8192, 12289, 5 * 4096 + 77, 28673));

TEST(Interpreter, SumsShowTheirLanesAndChunks) {
  const auto sum_of = [](int64_t size, const std::map<size_t, double>& values) {
    Tensor x = vector_of(DType::F32, std::vector<double>(static_cast<size_t>(size)));
    for (const auto& [index, value] : values) x.data[index] = value;
    return reduced("sum %x {all}", x, Evaluation::Typed, "f32").at(0);
  };
  // 1 is lost where it meets 1e8. Lane 0 takes elements 0, 64, 128; lanes 0 and 32 meet before lane 1 joins.
  EXPECT_EQ(sum_of(200, {{0, 1e8}, {64, 1}, {128, -1e8}}), 0);
  EXPECT_EQ(sum_of(200, {{0, 1e8}, {1, 1}, {32, -1e8}}), 1);
  EXPECT_EQ(sum_of(200, {{0, 1e8}, {32, 1}, {1, -1e8}}), 0);
  EXPECT_EQ(sum_of(3 * 4096, {{0, 1e8}, {4096, 1}, {8192, -1e8}}), 0);
  EXPECT_EQ(sum_of(3 * 4096, {{0, 1e8}, {4096, -1e8}, {8192, 1}}), 1);
  EXPECT_EQ(sum_of(4 * 4096, {{0, 1}, {4096, 1e8}, {8192, -1e8}, {12288, 1}}), 0);
  EXPECT_EQ(sum_of(5 * 4096, {{0, 1e8}, {12288, -1e8}, {16384, 1}}), 1);
}

TEST(Interpreter, AxesReduceTheRightElements) {
  Tensor x{DType::F32, {2, 2, 3}, {}};
  for (int i = 0; i < 12; ++i) x.data.push_back(i - 6);
  EXPECT_THAT(reduced("sum %x {all}", x, Evaluation::Typed)[5], -6);
  EXPECT_THAT(reduced("sum %x {matrix}", x, Evaluation::Typed),
              ElementsAre(-21, -21, -21, -21, -21, -21, 15, 15, 15, 15, 15, 15));
  EXPECT_THAT(reduced("sum %x {rows}", x, Evaluation::Typed),
              ElementsAre(-15, -15, -15, -6, -6, -6, 3, 3, 3, 12, 12, 12));
  EXPECT_THAT(reduced("sum %x {cols}", x, Evaluation::Typed), ElementsAre(-9, -7, -5, -9, -7, -5, 3, 5, 7, 3, 5, 7));
  EXPECT_THAT(reduced("amax %x {rows}", x, Evaluation::Typed), ElementsAre(6, 6, 6, 3, 3, 3, 2, 2, 2, 5, 5, 5));
}

TEST(Interpreter, ColumnsAndRowsAreSummedInChunksToo) {
  const Tensor x = random_tensor(DType::F32, {5000, 2}, 3);
  const Tensor y = random_tensor(DType::F32, {2, 5000}, 4);
  const auto plain = [](float sum, float value) { return sum + value; };
  std::vector<float> column, row(floats(y.data));
  for (size_t i = 1; i < x.data.size(); i += 2) column.push_back(static_cast<float>(x.data[i]));
  row.erase(row.begin(), row.begin() + 5000);
  EXPECT_EQ(reduced("sum %x {cols}", x, Evaluation::Typed, "f32")[1],
            static_cast<double>(canonical<float>(column, plain)));
  EXPECT_EQ(reduced("sum %x {rows}", y, Evaluation::Typed, "f32")[5000],
            static_cast<double>(canonical<float>(row, plain)));
}

TEST(Interpreter, LargestMagnitudePassesNaNOn) {
  EXPECT_TRUE(std::isnan(reduced("amax %x {all}", vector_of(DType::F32, {1, kNaN, kInf}), Evaluation::Typed)[0]));
  EXPECT_EQ(reduced("amax %x {all}", vector_of(DType::F32, {1, -kInf}), Evaluation::Typed)[0], kInf);
  EXPECT_EQ(reduced("norm %x {all}", vector_of(DType::F32, {3e30, 4e30}), Evaluation::Typed, "f32")[0],
            static_cast<double>(5e30f));
}

TEST(Interpreter, AnyLooksAtEveryElement) {
  const Graph graph = parsed(
      "recipe @t(%p: f32[2, 2] param) {\n  %b = ne %p, 0\n  %any = any %b {rows}\n  %r = select %any, 1, %p\n  return "
      "%r -> %p\n}\n");
  Bindings bindings;
  bindings.tensors["p"] = Tensor{DType::F32, {2, 2}, {0, 5, 0, 0}};
  EXPECT_THAT(run_for_p(graph, bindings, Evaluation::Typed).data, ElementsAre(1, 1, 0, 0));
}

// ----------------------------------------------------------------------------------------------------------

struct ProductCase {
  int64_t batch, rows, cols, depth;
};

class Matmul : public ::testing::TestWithParam<ProductCase> {};

/// One product as the definition says, element by element.
template <class T>
std::vector<double> chains(const ProductCase& c, const Tensor& a, const Tensor& b, bool ta, bool tb) {
  std::vector<double> out;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t i = 0; i < c.rows; ++i)
      for (int64_t j = 0; j < c.cols; ++j) {
        T sum = 0;
        for (int64_t k = 0; k < c.depth; ++k) {
          const int64_t at_a = n * c.rows * c.depth + (ta ? k * c.rows + i : i * c.depth + k);
          const int64_t at_b = n * c.cols * c.depth + (tb ? j * c.depth + k : k * c.cols + j);
          sum = std::fma(static_cast<T>(a.data[static_cast<size_t>(at_a)]),
                         static_cast<T>(b.data[static_cast<size_t>(at_b)]), sum);
        }
        out.push_back(static_cast<double>(sum));
      }
  return out;
}

void check_product(const ProductCase& c, DType dtype, bool ta, bool tb) {
  const Tensor a = random_tensor(dtype, {c.batch, ta ? c.depth : c.rows, ta ? c.rows : c.depth}, 1);
  const Tensor b = random_tensor(dtype, {c.batch, tb ? c.cols : c.depth, tb ? c.depth : c.cols}, 2);
  const std::string result = dtype == DType::F64 ? "f64" : "f32";
  const auto shape = [](const Tensor& t) { return fmt::format("[{}]", fmt::join(t.dims, ", ")); };
  const std::string flags = fmt::format("{}", ta && tb ? " {ta, tb}" : ta ? " {ta}" : tb ? " {tb}" : "");
  Tensor p{*parse_dtype(result),
           {c.batch, c.rows, c.cols},
           std::vector<double>(static_cast<size_t>(c.batch * c.rows * c.cols))};
  const Graph graph =
      parsed(fmt::format("recipe @t(%p: {}{} param, %a: {}{} grad, %b: {}{} state \"b\") {{\n"
                         "  %r = matmul %a, %b{}\n  return %r -> %p\n}}\n",
                         result, shape(p), dtype_name(dtype), shape(a), dtype_name(dtype), shape(b), flags));
  Bindings bindings;
  bindings.tensors = {{"p", p}, {"a", a}, {"b", b}};
  const auto wide = chains<double>(c, a, b, ta, tb);
  const auto typed = dtype == DType::F64 ? wide : chains<float>(c, a, b, ta, tb);
  expect_same(run_for_p(graph, bindings, Evaluation::Typed).data, typed, "typed" + flags);
  std::vector<double> rounded = wide;
  if (dtype != DType::F64)
    for (double& value : rounded) value = static_cast<double>(static_cast<float>(value));
  expect_same(run_for_p(graph, bindings, Evaluation::Exact).data, rounded, "exact" + flags);
}

TEST_P(Matmul, IsOneChainPerElement) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F64})
    for (bool ta : {false, true})
      for (bool tb : {false, true}) check_product(GetParam(), dtype, ta, tb);
}

INSTANTIATE_TEST_SUITE_P(All, Matmul,
                         ::testing::Values(ProductCase{1, 1, 1, 1}, ProductCase{1, 4, 16, 256},
                                           ProductCase{2, 5, 17, 257}, ProductCase{1, 3, 33, 600},
                                           ProductCase{3, 9, 7, 2}, ProductCase{1, 2, 2, 0}));

TEST(Interpreter, ProductsScaleAndAddInOrder) {
  // r = 2^12 + 1 as bf16 operands allow it; alpha * r rounds, then beta * C joins by fma, then the one rounding.
  const Graph graph = parsed(
      "recipe @t(%p: f32[1, 1] param, %a: f32[1, 1] grad, %alpha: f32[1, 1] state \"alpha\", #beta: group) {\n"
      "  %r = matmul %a, %a, %p, %alpha, #beta\n  return %r -> %p\n}\n");
  Bindings bindings;
  bindings.tensors = {{"p", {DType::F32, {1, 1}, {1 + 2 * kUlp}}},
                      {"a", {DType::F32, {1, 1}, {1}}},
                      {"alpha", {DType::F32, {1, 1}, {1 + kUlp}}}};
  bindings.scalars["beta"] = -(1.0 + kUlp);
  const double expected = static_cast<double>(std::fmaf(
      -(1.0f + static_cast<float>(kUlp)), 1.0f + 2 * static_cast<float>(kUlp), 1.0f + static_cast<float>(kUlp)));
  expect_same(run_for_p(graph, bindings, Evaluation::Typed).data, {expected}, "alpha, beta");
  EXPECT_NE(expected, static_cast<double>((1.0f + static_cast<float>(kUlp)) - (1.0f + 3 * static_cast<float>(kUlp))));
}

TEST(Interpreter, ProductsRoundOnceToBF16) {
  const Graph graph = parsed(
      "recipe @t(%p: bf16[1, 1] param, %a: bf16[1, 2] grad) {\n  %r = matmul %a, %a {tb} : bf16\n  return %r -> "
      "%p\n}\n");
  Bindings bindings;
  bindings.tensors = {{"p", {DType::BF16, {1, 1}, {0}}}, {"a", {DType::BF16, {1, 2}, {16, 1}}}};
  // 257 lies between 256 and 258 and is the middle; 256 is even.
  EXPECT_THAT(run_for_p(graph, bindings, Evaluation::Typed).data, ElementsAre(256));
}

}  // namespace
}  // namespace stepfuse::ir
