// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/interpreter_fixture.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::ir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// -----------------------------------------------------------------------------------------------------

/// Muon's orthogonalisation in one type: five steps after a clamped norm.
Graph newton_schulz(const std::string& type) {
  std::string body = "  %n = norm %g {matrix}\n  %c = max %n, #eps\n  %x0 = div %g, %c\n";
  for (int i = 0; i < 5; ++i) {
    body += fmt::format(
        "  %a{0} = matmul %x{0}, %x{0} {{tb, sym}}\n  %s{0} = matmul %a{0}, %a{0}\n"
        "  %l{0} = mul %a{0}, -4.775\n  %q{0} = mul %s{0}, 2.0315\n  %b{0} = add %l{0}, %q{0}\n"
        "  %y{0} = matmul %b{0}, %x{0}\n  %z{0} = mul %x{0}, 3.4445\n  %x{1} = add %z{0}, %y{0}\n",
        i, i + 1);
  }
  return parsed("recipe @ns(%p: " + type + "[R, C] param, %g: " + type + "[R, C] grad, #eps: group = 1e-7) {\n" + body +
                "  return %x5 -> %p\n}\n");
}

std::vector<double> orthogonalised(const std::string& type, Tensor g, Evaluation evaluation) {
  Bindings bindings;
  bindings.tensors["p"] = g;
  bindings.tensors["g"] = std::move(g);
  return run_for_p(newton_schulz(type), bindings, evaluation).data;
}

TEST(Interpreter, NewtonSchulzMapsSingularValues) {
  struct Case {
    std::vector<double> diagonal, expected;
  };
  for (const Case& c :
       {Case{{3, 4}, {0.722876, 1.119204}}, Case{{1, 1}, {1.108111, 1.108111}}, Case{{0.5, 0}, {0.696436, 0}},
        Case{{1e-7, 0}, {0.696436, 0}}, Case{{1e-8, 0}, {0.712120, 0}}}) {
    const Tensor g{DType::F64, {2, 2}, {c.diagonal[0], 0, 0, c.diagonal[1]}};
    const auto exact = orthogonalised("f64", g, Evaluation::Exact);
    EXPECT_NEAR(exact[0], c.expected[0], 1e-6);
    EXPECT_NEAR(exact[3], c.expected[1], 1e-6);
    Tensor narrow = g;
    narrow.dtype = DType::F32;
    for (double& value : narrow.data) value = static_cast<double>(static_cast<float>(value));
    const auto typed = orthogonalised("f32", narrow, Evaluation::Typed);
    EXPECT_NEAR(typed[0], c.expected[0], 2e-5);
    EXPECT_NEAR(typed[3], c.expected[1], 2e-5);
  }
}

TEST(Interpreter, TypedProductsOfAMatrixWithItselfAreSymmetric) {
  const Graph graph = parsed(
      "recipe @t(%p: f32[R, R] param, %g: f32[R, C] grad) {\n  %r = matmul %g, %g {tb, sym}\n  return %r -> %p\n}\n");
  Bindings bindings;
  bindings.tensors = {{"p", random_tensor(DType::F32, {37, 37}, 1)}, {"g", random_tensor(DType::F32, {37, 300}, 2)}};
  const auto product = run_for_p(graph, bindings, Evaluation::Typed).data;
  for (size_t i = 0; i < 37; ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_EQ(product[i * 37 + j], product[j * 37 + i]);
}

const std::string kAdamW =
    "recipe @adamw(%p: f32[N] param, %g: f32[N] grad, %m: f32[N] state \"exp_avg\", %v: f32[N] state \"exp_avg_sq\","
    " #t: step, #lr: group = 0.001 in [0, inf), #beta1: group = 0.9, #beta2: group = 0.999, #eps: group = 1e-8, #wd: "
    "group = 0.01) {\n"
    "  %p1 = mul %p, (1 - #lr * #wd)\n  %m1 = lerp %m, %g, (1 - #beta1)\n"
    "  %v0 = mul %v, #beta2\n  %v1 = addcmul %v0, (1 - #beta2), %g, %g\n"
    "  %root = sqrt %v1\n  %d0 = div %root, (sqrt(1 - powi(#beta2, #t)))\n  %d = add %d0, #eps\n"
    "  %p2 = addcdiv %p1, (-(#lr / (1 - powi(#beta1, #t)))), %m1, %d\n"
    "  return %p2 -> %p, %m1 -> %m, %v1 -> %v\n}\n";

TEST(Interpreter, AdamWTakesItsKnownFirstStep) {
  Bindings bindings;
  bindings.tensors = {{"p", vector_of(DType::F32, {1})}, {"g", vector_of(DType::F32, {0.5})}};
  bindings.fresh = {"m", "v"};
  for (Evaluation evaluation : {Evaluation::Exact, Evaluation::Typed}) {
    auto result = interpret(parsed(kAdamW), bindings, evaluation);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_NEAR(result->at("p").data[0], 0.99899, 1e-7);
    EXPECT_NEAR(result->at("m").data[0], 0.05, 1e-8);
    EXPECT_NEAR(result->at("v").data[0], 0.00025, 1e-10);
    EXPECT_EQ(result->at("p").dtype, DType::F32);
  }
}

TEST(Interpreter, ExactRoundsOnlyTheOutputs) {
  const Graph graph = parsed(
      "recipe @t(%p: f32[1] param) {\n  %a = add %p, 1e-10\n  %b = sub %a, 1\n  %h = cast %b : bf16\n  %r = mul %h, 1 "
      ": f32\n  return %r -> %p\n}\n");
  Bindings bindings;
  bindings.tensors["p"] = vector_of(DType::F32, {1});
  EXPECT_THAT(run_for_p(graph, bindings, Evaluation::Typed).data, ElementsAre(0));
  EXPECT_THAT(run_for_p(graph, bindings, Evaluation::Exact).data,
              ElementsAre(static_cast<double>(static_cast<float>((1 + 1e-10) - 1))));
}

TEST(Interpreter, EveryValueCanBeLookedAt) {
  const Graph graph = parsed(
      "recipe @t(%p: f32[2] param, #a: group = 3) {\n  %dead = mul %p, 5\n  %r = mul %p, (#a + 1)\n  return %r -> "
      "%p\n}\n");
  Bindings bindings;
  bindings.tensors["p"] = vector_of(DType::F32, {1, 2});
  const auto values = interpret_all(graph, bindings, Evaluation::Typed);
  ASSERT_TRUE(values.has_value());
  ASSERT_EQ(values->size(), graph.size());
  std::map<std::string, std::vector<double>> by_name;
  for (uint32_t i = 0; i < graph.size(); ++i) by_name[graph.value_name(ValueId{i})] = (*values)[i].data;
  EXPECT_THAT(by_name["dead"], ElementsAre(5, 10));
  EXPECT_THAT(by_name["r"], ElementsAre(4, 8));
  EXPECT_THAT(by_name["a"], ElementsAre(3));
}

// ------------------------------------------------------------------------------------------------------------

struct BadBinding {
  const char* name;
  void (*spoil)(Bindings&);
  const char* message;
  const char* hint = "";
};

class InterpreterError : public ::testing::TestWithParam<BadBinding> {};

TEST_P(InterpreterError, NamesTheBinding) {
  Bindings bindings;
  bindings.tensors = {{"p", vector_of(DType::F32, {1, 2})},
                      {"g", vector_of(DType::F32, {1, 2})},
                      {"m", vector_of(DType::F32, {0, 0})},
                      {"v", vector_of(DType::F32, {0, 0})}};
  GetParam().spoil(bindings);
  const auto result = interpret(parsed(kAdamW), bindings, Evaluation::Typed);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, StatusCode::InvalidArgument);
  EXPECT_THAT(result.error().message, HasSubstr(GetParam().message));
  EXPECT_THAT(result.error().hint, HasSubstr(GetParam().hint));
}

INSTANTIATE_TEST_SUITE_P(
    All, InterpreterError,
    ::testing::Values(
        BadBinding{"Missing", [](Bindings& b) { b.tensors.erase("g"); },
                   "no tensor for the input 'g' of recipe @adamw"},
        BadBinding{"StateNotFresh", [](Bindings& b) { b.tensors.erase("m"); }, "no tensor for the input 'm'"},
        BadBinding{"Unknown", [](Bindings& b) { b.tensors["q"] = {}; }, "has no tensor input 'q'; it has: p, g, m, v"},
        BadBinding{"UnknownHyper", [](Bindings& b) { b.scalars["beta3"] = 1; }, "has no hyperparameter 'beta3'",
                   "did you mean 'beta1'?"},
        BadBinding{"StepAsHyper", [](Bindings& b) { b.scalars["t"] = 1; }, "has no hyperparameter 't'"},
        BadBinding{"UnknownFresh", [](Bindings& b) { b.fresh = {"g"}; }, "has no state 'g' that could be fresh"},
        BadBinding{"DType", [](Bindings& b) { b.tensors["g"].dtype = DType::BF16; },
                   "tensor 'g' is bf16, but the recipe declares f32"},
        BadBinding{"Rank", [](Bindings& b) { b.tensors["g"].dims = {1, 2}; },
                   "tensor 'g' has shape [1, 2], but the recipe declares f32[N]"},
        BadBinding{"Extent", [](Bindings& b) { b.tensors["p"] = vector_of(DType::F32, {1, 2, 3}); },
                   "tensor 'g' has shape [2], but 'p' makes N 3"},
        BadBinding{"Elements", [](Bindings& b) { b.tensors["g"].dims = {3}; },
                   "tensor 'g' has shape [3], but 2 elements"},
        BadBinding{"Negative", [](Bindings& b) { b.tensors["g"].dims = {-2}; },
                   "tensor 'g' has shape [-2], but 2 elements"},
        BadBinding{"Range", [](Bindings& b) { b.scalars["lr"] = -1; }, "'lr' is -1; expected a value in [0, inf)"},
        BadBinding{"NaN", [](Bindings& b) { b.scalars["beta1"] = kNaN; },
                   "'beta1' is nan; expected a value in (-inf, inf)"}),
    [](const auto& param) { return param.param.name; });

TEST(Interpreter, UnsoundGraphIsAnError) {
  Graph graph;
  EXPECT_FALSE(interpret(graph, {}, Evaluation::Typed).has_value());
}

TEST(Interpreter, MoreElementsThanAnIndexHoldsIsAnError) {
  const Graph graph = parsed(
      "recipe @t(%p: f32[] param, %a: f32[A, 1, 1] state \"a\", %b: f32[B, 1] state \"b\", %c: f32[C] state \"c\") {\n"
      "  %abc = addcmul %a, 1, %b, %c\n  return %p -> %p\n}\n");
  const auto ones = [](std::vector<int64_t> dims) {
    return Tensor{DType::F32, std::move(dims), std::vector<double>(30'000, 1)};
  };
  Bindings bindings;
  bindings.tensors = {
      {"p", {DType::F32, {}, {1}}}, {"a", ones({30'000, 1, 1})}, {"b", ones({30'000, 1})}, {"c", ones({30'000})}};
  // interpret() computes no dead value.
  EXPECT_TRUE(interpret(graph, bindings, Evaluation::Typed).has_value());
  const auto result = interpret_all(graph, bindings, Evaluation::Typed);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, StatusCode::Environment);
  EXPECT_THAT(result.error().message, HasSubstr("not enough memory"));
}

}  // namespace
}  // namespace stepfuse::ir
