// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What a pass must not change: in strict, a bit of any result; in default, more than rounding in f64.
#include "ir/interpreter.h"
#include "ir/optimizers/recipe.h"
#include "tests/support/random_graph.h"
#include "tests/unit/pass_fixture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

namespace stepfuse::compiler {
namespace {

using ir::Evaluation;

ir::Bindings random_bindings(const ir::Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  ir::Bindings bindings;
  bindings.step = 3;
  for (const ir::Input& input : graph.inputs()) {
    if (input.type.scalar) continue;
    ir::Tensor tensor{input.type.dtype, {}, {}};
    int64_t elements = 1;
    for (size_t i = 0; i < input.type.shape.rank; ++i) {
      const ir::Extent extent = input.type.shape.dims[i];
      tensor.dims.push_back(extent.is_symbol() ? 37 : extent.value());
      elements *= tensor.dims.back();
    }
    // A few significant bits: exact in every element type.
    for (int64_t e = 0; e < elements; ++e) {
      int exponent = 0;
      const double mantissa = std::frexp(normal(random), &exponent);
      tensor.data.push_back(std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8));
    }
    bindings.tensors.emplace(input.name, std::move(tensor));
  }
  return bindings;
}

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

/// Results of the graph before and after the pass.
struct Pair {
  std::map<std::string, ir::Tensor> before, after;
  bool changed = false;
};

Pair run_both(std::string_view pass, ir::Graph graph, uint64_t seed, Evaluation evaluation,
              const PassContext& context = {}) {
  Pair pair;
  const ir::Bindings bindings = random_bindings(graph, seed);
  const auto before = ir::interpret(graph, bindings, evaluation);
  EXPECT_TRUE(before.has_value()) << before.error().message;
  pair.changed = run_pass(pass, graph, context);
  const auto after = ir::interpret(graph, bindings, evaluation);
  EXPECT_TRUE(after.has_value()) << after.error().message;
  if (before && after) {
    pair.before = *before;
    pair.after = *after;
  }
  return pair;
}

bool expect_same_bits(std::string_view pass, const ir::Graph& graph, uint64_t seed, const PassContext& context = {}) {
  const Pair pair = run_both(pass, graph, seed, Evaluation::Typed, context);
  for (const auto& [name, tensor] : pair.before) {
    const ir::Tensor& other = pair.after.at(name);
    const bool same =
        std::equal(tensor.data.begin(), tensor.data.end(), other.data.begin(), other.data.end(), same_bits);
    EXPECT_TRUE(same) << pass << ", seed " << seed << ", %" << name << "\n" << ir::print(graph);
  }
  return pair.changed;
}

std::vector<std::string> graph_passes(bool default_mode_only) {
  std::vector<std::string> names;
  for (const PassInfo& pass : all_passes())
    if (pass.run != nullptr && pass.default_mode_only == default_mode_only) names.emplace_back(pass.name);
  return names;
}

ir::Graph recipe_graph(const std::string& name, const ir::OptionList& options, const ir::ParameterSpec& spec) {
  const ir::Recipe* recipe = *ir::find_recipe(name);
  const auto values = ir::parse_options(name, recipe->options(), options);
  EXPECT_TRUE(values.has_value()) << values.error().message;
  return *recipe->build(*values, spec);
}

std::vector<ir::Graph> recipes(ir::DType dtype) {
  const auto spec = [&](int64_t rows, int64_t cols) { return ir::ParameterSpec{{rows, cols}, dtype, dtype, dtype}; };
  return {recipe_graph("adamw", {{"amsgrad", "true"}}, spec(5, 7)),
          recipe_graph("adam", {{"weight_decay", "0.1"}, {"maximize", "true"}}, spec(5, 7)),
          recipe_graph("sgd", {{"momentum", "0.9"}, {"nesterov", "true"}}, spec(5, 7)),
          recipe_graph("muon", {}, spec(6, 9)),
          recipe_graph("muon", {{"ns_steps", "2"}}, spec(9, 6)),
          recipe_graph("muon", {{"nesterov", "false"}, {"ns_steps", "3"}}, spec(7, 7)),
          recipe_graph("muon", {{"ns_dtype", "f32"}, {"eps", "0"}}, spec(9, 4)),
          recipe_graph("muon", {{"ns_dtype", "f32"}}, spec(4, 9))};
}

class StrictPass : public testing::TestWithParam<std::string> {};

TEST_P(StrictPass, RandomRulesKeepEveryBit) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const auto random = tests::make_random_graph(seed, {static_cast<int>(4 + seed % 9), false});
    changed += expect_same_bits(GetParam(), random.graph, seed) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(changed, 0) << "the random rules give " << GetParam() << " nothing to do";
}

TEST_P(StrictPass, RandomProductsKeepEveryBit) {
  for (uint64_t seed = 0; seed < 12 && !HasFailure(); ++seed)
    expect_same_bits(GetParam(), tests::make_random_graph(500 + seed, {5, true}).graph, seed);
}

TEST_P(StrictPass, RecipesKeepEveryBit) {
  for (const ir::DType dtype : {ir::DType::F32, ir::DType::BF16})
    for (const ir::Graph& graph : recipes(dtype)) expect_same_bits(GetParam(), graph, 1);
}

INSTANTIATE_TEST_SUITE_P(Passes, StrictPass, testing::ValuesIn(graph_passes(false)),
                         [](const auto& instance) { return instance.param; });

/// Rounding to a narrower type is what default mode may drop, so the claim is made on f64.
class DefaultPass : public testing::TestWithParam<std::string> {};

void expect_close(std::string_view pass, const ir::Graph& graph, uint64_t seed) {
  const Pair pair = run_both(pass, graph, seed, Evaluation::Exact);
  for (const auto& [name, tensor] : pair.before) {
    const ir::Tensor& other = pair.after.at(name);
    double largest = 0;
    for (double value : tensor.data) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < tensor.data.size(); ++i) {
      const double a = tensor.data[i];
      const double b = other.data[i];
      if (same_bits(a, b)) continue;
      ASSERT_LE(std::abs(a - b), 1e-12 * largest) << pass << ", seed " << seed << ", %" << name << "[" << i << "]\n"
                                                  << ir::print(graph);
    }
  }
}

/// Sums and scales around products of f64 matrices, normalised or not, with decay.
ir::Graph random_product_rule(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](const std::vector<std::string>& list) { return list[random() % list.size()]; };
  const bool tall = random() % 2 == 0;
  std::string body = "%n = norm %g {matrix} : f64\n %c = max %n, 1e-7 : f64\n";
  body += pick({"%x = div %g, %c : f64\n", "%x = div %m, %c : f64\n", "%x = mul %g, 0.5 : f64\n"});
  body += tall ? "%a = matmul %x, %x {ta} : f64\n" : "%a = matmul %x, %x {tb} : f64\n";
  body += "%b = matmul %a, %a : f64\n";
  body += pick({"%ka = mul %a, -1.5 : f64\n", "%ka = mul #wd, %a : f64\n", "%ka = neg %a : f64\n"});
  body += pick({"%kb = mul %b, 0.5 : f64\n", "%kb = mul %b, #lr : f64\n", "%kb = sub %b, %a : f64\n"});
  body += pick({"%q = add %ka, %kb : f64\n", "%q = sub %kb, %ka : f64\n", "%q = axpy #lr, %kb, %ka : f64\n"});
  body += tall ? "%y = matmul %x, %q : f64\n" : "%y = matmul %q, %x : f64\n";
  body += pick({"%u = axpy 2, %x, %y : f64\n", "%u = add %y, %x : f64\n", "%u = sub %y, %m : f64\n",
                "%kx = mul 3, %x : f64\n %ky = mul %y, 0.25 : f64\n %u = add %kx, %ky : f64\n"});
  body += pick({"%d = mul %p, (1 - #lr * #wd) : f64\n", "%d = div %p, 2 : f64\n", "%d = sub %p, %g : f64\n"});
  body += "%r = axpy (-#lr), %u, %d : f64\n return %r -> %p\n";
  return rule_of(tall ? matrix_rule("f64", 7, 5, body) : matrix_rule("f64", 5, 7, body));
}

TEST_P(DefaultPass, RulesAroundProductsStayEqualInF64) {
  for (uint64_t seed = 0; seed < 100 && !HasFatalFailure(); ++seed)
    expect_close(GetParam(), random_product_rule(seed), seed);
}

TEST_P(DefaultPass, RulesAfterTheEarlierPassesStayEqualInF64) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 100 && !HasFatalFailure(); ++seed) {
    ir::Graph graph = random_product_rule(seed);
    for (const PassInfo& pass : all_passes()) {
      if (pass.name == GetParam()) break;
      if (pass.run != nullptr) pass.run(graph, {});
    }
    const std::string text = ir::print(graph);
    expect_close(GetParam(), graph, seed);
    changed += run_pass(GetParam(), graph) ? 1 : 0;
  }
  // There is no bf16 in these.
  EXPECT_EQ(changed > 0, GetParam() != "widen_products");
}

TEST_P(DefaultPass, RecipesStayEqualInF64) {
  // The parameter is f64, so the result shows what the pass did; bf16 iterations are exact here.
  for (const ir::Graph& graph : recipes(ir::DType::F64)) expect_close(GetParam(), graph, 1);
}

INSTANTIATE_TEST_SUITE_P(Passes, DefaultPass, testing::ValuesIn(graph_passes(true)),
                         [](const auto& instance) { return instance.param; });

TEST(Pipeline, TheWholeIsWhatItsPassesAre) {
  for (const ir::Graph& before : recipes(ir::DType::F64)) {
    ir::Graph graph = before;
    const auto outcome = run_passes(graph, {}, {});
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    const ir::Bindings bindings = random_bindings(before, 2);
    const auto expected = *ir::interpret(before, bindings, Evaluation::Exact);
    const auto actual = *ir::interpret(graph, bindings, Evaluation::Exact);
    double error = 0;
    double largest = 0;
    for (size_t i = 0; i < expected.at("p").data.size(); ++i) {
      error = std::max(error, std::abs(expected.at("p").data[i] - actual.at("p").data[i]));
      largest = std::max(largest, std::abs(expected.at("p").data[i]));
    }
    EXPECT_LE(error, 1e-12 * largest) << ir::print(graph);
  }
}

}  // namespace
}  // namespace stepfuse::compiler
