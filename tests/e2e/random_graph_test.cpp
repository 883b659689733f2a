// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Strict numerics on random rules: the fused plan, the unfused plan and the typed interpreter agree bit for bit, for
// any number of threads.
#include "tests/support/random_graph.h"

#include "ir/print.h"
#include "tests/e2e/optimizer_run.h"

#include <gtest/gtest.h>

namespace stepfuse::tests {

namespace {

/// Splits 1,000 seeds into parts, so that ctest's shards share them.
constexpr uint64_t kParts = 20;
constexpr uint64_t kPlain = 700;
constexpr uint64_t kProducts = 300;

ir::ParameterSpec spec_of(const RandomGraph& random) {
  ir::ParameterSpec spec{random.shape, {}, {}, {}};
  for (const ir::Input& input : random.graph.inputs()) {
    if (input.kind == ir::InputKind::Param) spec.param = input.type.dtype;
    if (input.kind == ir::InputKind::Grad) spec.grad = input.type.dtype;
  }
  return spec;
}

struct Variant {
  const char* name;
  RunSettings settings;
};

void expect_same(const RandomGraph& random, const std::string& text, const RunResult& expected, const RunResult& actual,
                 const char* name, uint64_t seed) {
  const std::string context = fmt::format("seed {}, {} against the interpreter\n{}", seed, name, text);
  EXPECT_EQ(difference(spec_of(random).param, expected.param, actual.param), "") << context;
  ASSERT_EQ(expected.states.size(), actual.states.size());
  size_t s = 0;
  for (const ir::Input& input : random.graph.inputs())
    if (input.kind == ir::InputKind::State) {
      EXPECT_EQ(difference(input.type.dtype, expected.states[s], actual.states[s]), "")
          << "state " << input.name << ", " << context;
      ++s;
    }
}

void check_seed(uint64_t seed, const RandomGraphOptions& options) {
  const RandomGraph random = make_random_graph(seed, options);
  const std::string text = ir::print(random.graph);
  const ir::ParameterSpec spec = spec_of(random);
  const int64_t count = compiler::element_count(random.shape);
  const Bytes param = random_tensor(spec.param, count, seed + 1);
  const Bytes grad = random_tensor(spec.grad, count, seed + 2);
  const auto expected = run_rule(text, {}, spec, param, grad, {ir::Mode::Strict, "interp", 1, {}, 2});
  ASSERT_TRUE(expected.has_value()) << expected.error().message << "\n" << text;
  const Variant variants[] = {
      {"fused, 1 thread", {ir::Mode::Strict, "cpu", 1, {}, 2}},
      {"fused, 3 threads", {ir::Mode::Strict, "cpu", 3, {}, 2}},
      {"unfused", {ir::Mode::Strict, "cpu", 2, {"fuse", "orient", "cast_sink", "reuse_memory"}, 2}}};
  for (const Variant& variant : variants) {
    const auto actual = run_rule(text, {}, spec, param, grad, variant.settings);
    ASSERT_TRUE(actual.has_value()) << actual.error().message << "\nseed " << seed << "\n" << text;
    expect_same(random, text, *expected, *actual, variant.name, seed);
    EXPECT_EQ(actual->launched, actual->planned.fused) << "seed " << seed;
  }
}

/// Whether the outputs depend on a product and on a reduction with more than one partial.
bool has_product_and_chunks(const ir::Graph& graph) {
  const auto live = ir::live_values(graph);
  bool product = false;
  bool chunks = false;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const ir::Node& node = graph.node(ir::ValueId{i});
    if (!live[i]) continue;
    product = product || node.op == ir::Op::Matmul;
    if (!ir::is_reduce(node.op)) continue;
    const ir::Shape& shape = graph.node(node.operands[0]).type.shape;
    const int64_t rows = shape.from_end(1).value();
    const int64_t cols = shape.from_end(0).value();
    const ir::Axis axis = std::get<ir::ReduceAttr>(node.attr).axis;
    chunks = chunks || (axis == ir::Axis::Rows ? cols : axis == ir::Axis::Cols ? rows : rows * cols) > 4096;
  }
  return product && chunks;
}

class RandomGraphs : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomGraphs, ElementwiseAndReductionsAgreeBitForBit) {
  for (uint64_t seed = GetParam(); seed < kPlain && !HasFailure(); seed += kParts)
    check_seed(seed, {static_cast<int>(3 + seed % 8), false});
}

TEST_P(RandomGraphs, ProductsAndLongReductionsAgreeBitForBit) {
  for (uint64_t seed = 10'000 + GetParam(); seed < 10'000 + kProducts && !HasFailure(); seed += kParts) {
    const RandomGraphOptions options{static_cast<int>(2 + seed % 5), true};
    EXPECT_TRUE(has_product_and_chunks(make_random_graph(seed, options).graph)) << seed;
    check_seed(seed, options);
  }
}

INSTANTIATE_TEST_SUITE_P(Part, RandomGraphs, testing::Range(uint64_t{0}, kParts));

}  // namespace

}  // namespace stepfuse::tests
