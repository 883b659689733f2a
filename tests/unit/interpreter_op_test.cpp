// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/interpreter_fixture.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::ir {
namespace {

using ::testing::ElementsAre;

// ---------------------------------------------------------------------------

struct Elementwise {
  std::string op;  // operands %a, %b, %c, %d or scalars; the result of type `dtype`
  std::vector<double> operands;
  double expected;
  DType dtype = DType::F32;
};

class ElementwiseOp : public ::testing::TestWithParam<Elementwise> {};

/// The op on vectors of `dtype`, then a cast of a bool result.
double run_vector_op(const Elementwise& c) {
  const std::string type(dtype_name(c.dtype));
  std::string inputs = "%p: " + type + "[N] param";
  Bindings bindings;
  bindings.tensors["p"] = vector_of(c.dtype, {0});
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    inputs += ", %" + name + ": " + type + "[N] state \"" + name + "\"";
    bindings.tensors[name] = vector_of(c.dtype, {c.operands[i]});
  }
  const Graph graph =
      parsed("recipe @t(" + inputs + ") {\n  %x = " + c.op + "\n  %r = cast %x : " + type + "\n  return %r -> %p\n}\n");
  return run_for_p(graph, bindings, Evaluation::Typed).data.at(0);
}

TEST_P(ElementwiseOp, IsExactlyAsDefined) {
  expect_same({run_vector_op(GetParam())}, {GetParam().expected}, GetParam().op);
}

constexpr float kThird = 1.0f / 3.0f;

std::vector<Elementwise> arithmetic_cases() {
  return {
      {"add %a, %b", {1, 0x1p-24}, 1},
      {"add %a, %b", {1, 0x1p-23}, 1 + kUlp},
      {"add %a, %b", {1, 0x1p-30}, 1 + 0x1p-30, DType::F64},
      {"sub %a, %b", {0, 0}, 0},
      {"sub %a, %b", {kInf, kInf}, kNaN},
      {"mul %a, %b", {1 + kUlp, 1 + kUlp}, 1 + 2 * kUlp},
      {"mul %a, 0.1", {3}, static_cast<double>(3.0f * 0.1f)},
      {"mul %a, (1 - 0.9)", {3}, static_cast<double>(3.0f * static_cast<float>(1 - 0.9))},
      {"mul %a, 0.1", {3}, 3 * 0.1, DType::F64},
      {"mul %a, %b", {0x1p-100, 0x1p-49}, 0x1p-149},
      {"mul %a, %b", {1e38, 10}, kInf},
      {"div %a, %b", {1, 3}, static_cast<double>(kThird)},
      {"div %a, %b", {1, 0}, kInf},
      {"div %a, %b", {-1, 0}, -kInf},
      {"div %a, %b", {0, 0}, kNaN},
      {"neg %a", {0}, -0.0},
      {"neg %a", {-2}, 2},
      {"abs %a", {-0.0}, 0},
      {"abs %a", {-kInf}, kInf},
      {"sign %a", {-3}, -1},
      {"sign %a", {0x1p-149}, 1},
      {"sign %a", {-0.0}, 0},
      {"sign %a", {kNaN}, kNaN},
      {"sqrt %a", {2}, static_cast<double>(std::sqrt(2.0f))},
      {"sqrt %a", {-0.0}, -0.0},
      {"sqrt %a", {-1}, kNaN},
      {"min %a, %b", {0, -0.0}, -0.0},
      {"min %a, %b", {-0.0, 0}, -0.0},
      {"max %a, %b", {-0.0, 0}, 0},
      {"max %a, %b", {0, -0.0}, 0},
      {"max %a, %b", {kNaN, 1}, kNaN},
      {"max %a, %b", {1, kNaN}, kNaN},
      {"min %a, %b", {1, kNaN}, kNaN},
      {"min %a, 0.1", {1}, static_cast<double>(0.1f)},
      {"min %a, %b", {-kInf, 1}, -kInf},
      // (1 + u)^2 - (1 + 2u) is u^2 with one rounding, 0 with two.
      {"axpy %a, %b, %c", {1 + kUlp, 1 + kUlp, -(1 + 2 * kUlp)}, 0x1p-46},
      {"axpy %a, %b, %c", {1 + 0x1p-52, 1 + 0x1p-52, -(1 + 0x1p-51)}, 0x1p-104, DType::F64},
      {"lerp %a, %b, %c", {1, 3, 0.25}, 1.5},
      {"lerp %a, %b, %c", {1, 3, 0.5}, 2},
      {"lerp %a, %b, %c", {0.1, 1e30, 1}, 1e30},
      {"lerp %a, %b, %c", {1e30, 1, 1}, 1},
      {"lerp %a, %b, %c", {1, 2, -0.5}, 0.5},
      {"addcmul %a, %b, %c, %d", {-(1 + 2 * kUlp), 1, 1 + kUlp, 1 + kUlp}, 0x1p-46},
      // v * a is rounded first: (1 + u)^2 becomes 1 + 2u.
      {"addcmul %a, %b, %c, %d", {-(1 + 2 * kUlp), 1 + kUlp, 1 + kUlp, 1}, 0},
      {"addcdiv %a, %b, %c, %d", {1, 1, 1, 3}, static_cast<double>(1.0f + kThird)},
      {"addcdiv %a, %b, %c, %d", {0, 1e30, 1e30, 1e30}, kInf},
  };
}

std::vector<Elementwise> logic_cases() {
  return {
      {"gt %a, %b", {2, 1}, 1},
      {"gt %a, %b", {1, 1}, 0},
      {"gt %a, %b", {kNaN, 1}, 0},
      {"ge %a, %b", {1, 1}, 1},
      {"lt %a, %b", {1, kNaN}, 0},
      {"lt %a, %b", {-1, 0}, 1},
      {"le %a, %b", {0, -0.0}, 1},
      {"eq %a, %b", {0, -0.0}, 1},
      {"eq %a, %b", {kNaN, kNaN}, 0},
      {"ne %a, %b", {kNaN, kNaN}, 1},
      {"ne %a, %b", {1, 1}, 0},
      // 0.1 is rounded to f32 before it is compared.
      {"eq %a, 0.1", {static_cast<double>(0.1f)}, 1},
      {"isfinite %a", {kInf}, 0},
      {"isfinite %a", {kNaN}, 0},
      {"isfinite %a", {3e38}, 1},
      {"select (gt(2, 1)), %a, %b", {5, 6}, 5},
      {"select (1 - 1), %a, %b", {5, 6}, 6},
      {"cast %a : f32", {0.1}, static_cast<double>(0.1f), DType::F64},
      {"cast %a : bf16", {1 + 0x1p-8}, 1, DType::F32},
      {"cast %a : bf16", {1 + 0x1p-8 + 0x1p-40}, 1 + 0x1p-7, DType::F64},
      {"add %a, %b", {1, 0x1p-8}, 1, DType::BF16},
      {"add %a, %b", {1, 0x1p-8 + 0x1p-15}, 1 + 0x1p-7, DType::BF16},
      {"add %a, %b", {1, 0x1p-11}, 1, DType::F16},
      {"mul %a, %b", {256, 256}, kInf, DType::F16},
      {"mul %a, %b", {256, 256}, 65536, DType::BF16},
      // f32 inside: 0.1 is not rounded to bf16, the product is.
      {"mul %a, 0.1", {1}, 0.10009765625, DType::BF16},
  };
}

INSTANTIATE_TEST_SUITE_P(Arithmetic, ElementwiseOp, ::testing::ValuesIn([] {
                           auto cases = arithmetic_cases();
                           for (auto& c : cases)
                             if (c.dtype == DType::F32)
                               for (double& x : c.operands) x = static_cast<double>(static_cast<float>(x));
                           for (auto& c : cases)
                             if (c.dtype == DType::F32)
                               c.expected = static_cast<double>(static_cast<float>(c.expected));
                           return cases;
                         }()));
INSTANTIATE_TEST_SUITE_P(Logic, ElementwiseOp, ::testing::ValuesIn(logic_cases()));

TEST(Interpreter, BoolLogicFollowsItsTruthTables) {
  const Graph graph = parsed(
      "recipe @t(%p: f32[4] param, %a: f32[4] state \"a\", %b: f32[4] state \"b\") {\n"
      "  %x = gt %a, 0\n  %y = gt %b, 0\n  %n = not %y\n  %o = or %x, %n\n  %z = and %o, %y\n"
      "  %r = cast %z : f32\n  return %r -> %p\n}\n");
  Bindings bindings;
  bindings.tensors = {{"p", vector_of(DType::F32, {0, 0, 0, 0})},
                      {"a", vector_of(DType::F32, {0, 0, 1, 1})},
                      {"b", vector_of(DType::F32, {0, 1, 0, 1})}};
  EXPECT_THAT(run_for_p(graph, bindings, Evaluation::Typed).data, ElementsAre(0, 0, 0, 1));
}

// -----------------------------------------------------------------------------------------------------------

double scalar_result(const std::string& expression, Bindings bindings = {}) {
  bindings.tensors["p"] = vector_of(DType::F64, {1});
  bindings.fresh.insert("s");
  const Graph graph = parsed(
      "recipe @t(%p: f64[N] param, %s: f64[N] state \"s\", %o: f64[N] state \"o\", #t: step, #a: group = 0.9) {\n"
      "  %r = mul %p, (" +
      expression + ")\n  return %r -> %p\n}\n");
  bindings.tensors["o"] = vector_of(DType::F64, {1});
  return run_for_p(graph, bindings, Evaluation::Typed).data.at(0);
}

TEST(Interpreter, ScalarsRunInF64) {
  EXPECT_EQ(scalar_result("1 - 0.9"), 1 - 0.9);
  EXPECT_EQ(scalar_result("#a / 3"), 0.9 / 3);
  EXPECT_EQ(scalar_result("select(gt(#a, 0.5), 2, 3)"), 2);
  EXPECT_EQ(scalar_result("select(isfinite(#a / 0), 2, 3)"), 3);
  EXPECT_EQ(scalar_result("lerp(1, 3, 0.25) + max(#a, 7) - -1"), 9.5);
}

TEST(Interpreter, PowersAreBySquaringFromTheLowestBit) {
  const double square = 0.9 * 0.9;
  EXPECT_EQ(scalar_result("powi(#a, 5)"), 0.9 * (square * square));
  EXPECT_EQ(scalar_result("powi(#a, 6)"), square * (square * square));
  EXPECT_EQ(scalar_result("powi(#a, -2)"), 1 / square);
  EXPECT_EQ(scalar_result("powi(0, 0)"), 1);
  EXPECT_EQ(scalar_result("powi(-2, 3)"), -8);
  EXPECT_TRUE(std::isnan(scalar_result("powi(#a, 0.5)")));
  EXPECT_TRUE(std::isnan(scalar_result("powi(#a, nan)")));
  EXPECT_TRUE(std::isnan(scalar_result("powi(#a, inf)")));
  Bindings late;
  late.step = 1'000'000;
  EXPECT_EQ(scalar_result("powi(#a, #t)", late), 0);
}

TEST(Interpreter, FreshStatesAreFlaggedAndZero) {
  EXPECT_EQ(scalar_result("fresh(%s)"), 1);
  EXPECT_EQ(scalar_result("fresh(%o)"), 0);
  const Graph graph = parsed(
      "recipe @sgd(%p: f32[N] param, %g: f32[N] grad, %m: f32[N] state \"momentum_buffer\") {\n"
      "  %kept = axpy 0.5, %m, %g\n  %m1 = select (fresh(%m)), %g, %kept\n  %p1 = sub %p, %m1\n"
      "  return %p1 -> %p, %m1 -> %m\n}\n");
  Bindings bindings;
  bindings.tensors = {{"p", vector_of(DType::F32, {1, 2})}, {"g", vector_of(DType::F32, {3, 4})}};
  bindings.fresh = {"m"};
  auto first = interpret(graph, bindings, Evaluation::Typed);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  EXPECT_THAT(first->at("m").data, ElementsAre(3, 4));
  EXPECT_THAT(first->at("p").data, ElementsAre(-2, -2));
  bindings.fresh.clear();
  bindings.tensors["m"] = first->at("m");
  EXPECT_THAT(interpret(graph, bindings, Evaluation::Typed)->at("m").data, ElementsAre(4.5, 6));
}

// ------------------------------------------------------------------------------------------------------------

TEST(Interpreter, ExtentsOfOneBroadcast) {
  const Graph graph = parsed(
      "recipe @t(%p: f32[2, 2, 3] param, %row: f32[3] state \"row\", %col: f32[2, 1] state \"col\","
      " %batch: f32[2, 1, 1] state \"batch\", %one: f32[] state \"one\") {\n"
      "  %a = add %row, %col\n  %b = add %a, %batch\n  %c = add %one, %b\n  %r = add %p, %c\n  return %r -> %p\n}\n");
  Bindings bindings;
  bindings.tensors = {{"p", {DType::F32, {2, 2, 3}, std::vector<double>(12, 10000)}},
                      {"row", vector_of(DType::F32, {1, 2, 3})},
                      {"col", {DType::F32, {2, 1}, {10, 20}}},
                      {"batch", {DType::F32, {2, 1, 1}, {100, 200}}},
                      {"one", {DType::F32, {}, {1000}}}};
  for (Evaluation evaluation : {Evaluation::Typed, Evaluation::Exact})
    EXPECT_THAT(run_for_p(graph, bindings, evaluation).data,
                ElementsAre(11111, 11112, 11113, 11121, 11122, 11123, 11211, 11212, 11213, 11221, 11222, 11223));
}

/// %r = op %x for a fixed input; the result's contents.
std::vector<double> moved(const std::string& x_shape, const std::string& op, const std::string& r_shape,
                          std::vector<int64_t> x_dims, std::vector<int64_t> r_dims) {
  const Graph graph = parsed("recipe @t(%p: f32" + r_shape + " param, %x: f32" + x_shape + " grad) {\n  %r = " + op +
                             "\n  return %r -> %p\n}\n");
  Bindings bindings;
  Tensor x{DType::F32, x_dims, {}}, p{DType::F32, r_dims, {}};
  int64_t x_count = 1, p_count = 1;
  for (int64_t d : x_dims) x_count *= d;
  for (int64_t d : r_dims) p_count *= d;
  for (int64_t i = 0; i < x_count; ++i) x.data.push_back(static_cast<double>(i));
  p.data.resize(static_cast<size_t>(p_count));
  bindings.tensors = {{"x", x}, {"p", p}};
  return run_for_p(graph, bindings, Evaluation::Typed).data;
}

TEST(Interpreter, ViewsAndMovesPlaceEveryElement) {
  EXPECT_THAT(moved("[2, 3]", "transpose %x", "[3, 2]", {2, 3}, {3, 2}), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(moved("[2, 2, 2]", "transpose %x", "[2, 2, 2]", {2, 2, 2}, {2, 2, 2}),
              ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(moved("[4, 2]", "slice %x {dim=0, begin=1, end=3}", "[2, 2]", {4, 2}, {2, 2}), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(moved("[2, 4]", "slice %x {dim=1, begin=3, end=4}", "[2, 1]", {2, 4}, {2, 1}), ElementsAre(3, 7));
  EXPECT_THAT(moved("[2, 2]", "concat %x, %x {dim=0}", "[4, 2]", {2, 2}, {4, 2}), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_THAT(moved("[2, 2]", "concat %x, %x {dim=1}", "[2, 4]", {2, 2}, {2, 4}), ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
  EXPECT_THAT(moved("[2]", "concat %x, %x {dim=0}", "[4]", {2}, {4}), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(moved("[2, 2, 2]", "adddiag %x, 0.5", "[2, 2, 2]", {2, 2, 2}, {2, 2, 2}),
              ElementsAre(0.5, 1, 2, 3.5, 4.5, 5, 6, 7.5));
  EXPECT_THAT(moved("[3, 0]", "transpose %x", "[0, 3]", {3, 0}, {0, 3}), ElementsAre());
}

}  // namespace
}  // namespace stepfuse::ir
