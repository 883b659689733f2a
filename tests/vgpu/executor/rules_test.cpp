// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Rules of a user's on the device against the typed interpreter in strict mode, and Muon against the exact one.
#include "ir/print.h"
#include "tests/support/random_graph.h"
#include "tests/vgpu/executor/rig.h"

#include <cmath>

namespace stepfuse::tests {
namespace {

using ir::DType;

std::string rule_text(const std::string& body) { return "// stepfuse-ir v1\nrecipe @mine(" + body; }

/// Every tensor of a run.
struct Compared {
  std::string what;
  DType dtype;
  Bytes expected, actual;
};

std::vector<DType> state_types(const ir::Graph& rule) {
  std::vector<DType> types;
  for (const ir::Input& input : rule.inputs())
    if (input.kind == ir::InputKind::State) types.push_back(input.type.dtype);
  return types;
}

struct OneRun {
  std::string rule;
  ir::ParameterSpec spec;
  std::vector<DType> states;
};

void expect_interpreters_bits(const OneRun& run, uint64_t seed, const std::vector<std::string>& disabled = {}) {
  const int64_t count = compiler::element_count(run.spec.shape);
  const Bytes param = random_tensor(run.spec.param, count, seed + 1);
  const Bytes grad = random_tensor(run.spec.grad, count, seed + 2);
  if (virtual_driver() != nullptr) virtual_driver()->set_seed(seed);
  const auto want = run_rule(run.rule, {}, run.spec, param, grad, {ir::Mode::Strict, "interp", 1, {}, 2});
  ASSERT_TRUE(want) << want.error().message << "\n" << run.rule;
  const auto got = run_rule(run.rule, {}, run.spec, param, grad, {ir::Mode::Strict, "cuda", 1, disabled, 2});
  ASSERT_TRUE(got) << got.error().message << "\nseed " << seed << "\n" << run.rule;
  EXPECT_EQ(difference(run.spec.param, want->param, got->param), "") << "seed " << seed << "\n" << run.rule;
  ASSERT_EQ(want->states.size(), got->states.size());
  for (size_t s = 0; s < run.states.size(); ++s)
    EXPECT_EQ(difference(run.states[s], want->states[s], got->states[s]), "")
        << "state " << s << ", seed " << seed << "\n"
        << run.rule;
  EXPECT_EQ(got->launched, got->planned.fused) << "seed " << seed << "\n" << run.rule;
}

class RandomRules : public CudaExecutor, public testing::WithParamInterface<uint64_t> {};

constexpr uint64_t kParts = 10;
constexpr uint64_t kRules = 200;

TEST_P(RandomRules, HaveTheInterpretersBits) {
  for (uint64_t seed = 20'000 + GetParam(); seed < 20'000 + kRules && !HasFailure(); seed += kParts) {
    const RandomGraph random = make_random_graph(seed, {static_cast<int>(3 + seed % 8), false});
    ir::ParameterSpec spec{random.shape, {}, {}, {}};
    for (const ir::Input& input : random.graph.inputs()) {
      if (input.kind == ir::InputKind::Param) spec.param = input.type.dtype;
      if (input.kind == ir::InputKind::Grad) spec.grad = input.type.dtype;
    }
    expect_interpreters_bits({ir::print(random.graph), spec, state_types(random.graph)}, seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Part, RandomRules, testing::Range(uint64_t{0}, kParts));

using UserRules = CudaExecutor;

/// Copies, concatenations and diagonals, of the caller's tensors and of scratch.
TEST_F(UserRules, MoveTensors) {
  const std::string concat = rule_text(
      "%p: f32[6,10] param, %g: f32[6,10] grad, %m: f32[6,10] state \"m\") {\n"
      "  %a = slice %g {dim=1, begin=0, end=3} : f32\n  %b = slice %p {dim=1, begin=3, end=10} : f32\n"
      "  %c = concat %a, %b {dim=1} : f32\n  %d = concat %c, %m {dim=0} : f32\n"
      "  %e = slice %d {dim=0, begin=3, end=9} : f32\n  return %c -> %p, %e -> %m\n}\n");
  expect_interpreters_bits({concat, {{6, 10}}, {DType::F32}}, 3);
  const std::string diagonal = rule_text(
      "%p: f32[40,40] param, %g: f32[40,40] grad, %m: f32[40,40] state \"m\") {\n"
      "  %a = adddiag %g, 2.5 : f32\n  %t = transpose %m : f32\n  %b = adddiag %t, 0.5 : f32\n"
      "  %q = axpy -0.5, %a, %p : f32\n  %n = add %b, %a : f32\n  return %q -> %p, %n -> %m\n}\n");
  expect_interpreters_bits({diagonal, {{40, 40}}, {DType::F32}}, 4);
  const std::string copy = rule_text(
      "%p: f32[N] param, %g: f32[N] grad, %a: f32[N] state \"a\", %b: f32[N] state \"b\") {\n"
      "  %x = add %a, %g : f32\n  %q = add %p, %b : f32\n  return %q -> %p, %b -> %a, %x -> %b\n}\n");
  expect_interpreters_bits({copy, {{5000}}, {DType::F32, DType::F32}}, 5);
}

/// Small integers, so that a product has one right answer in any order of summation.
Bytes small_integers(int64_t count, uint64_t seed) {
  std::vector<double> values = to_doubles(DType::F32, random_tensor(DType::F32, count, seed, 2));
  for (double& value : values) value = std::nearbyint(value);
  return from_doubles(DType::F32, values);
}

/// alpha and beta of a product from tensors: of the caller's, of a state, of scratch.
TEST_F(UserRules, TakeFactorsFromMemory) {
  const std::string rule = rule_text(
      "%p: f32[9,9] param, %g: f32[9,9] grad, %s: f32[1,1] state \"s\") {\n"
      "  %w = amax %g {matrix} : f32\n  %k = slice %g {dim=0, begin=2, end=3} : f32\n"
      "  %j = slice %k {dim=1, begin=4, end=5} : f32\n  %u = matmul %g, %g, %p, %w, %j {tb} : f32\n"
      "  %v = matmul %g, %u, %p, %j, 1 : f32\n  %s1 = add %s, 1 : f32\n"
      "  %x = matmul %v, %g, %s1 : f32\n  return %x -> %p, %s1 -> %s\n}\n");
  const ir::ParameterSpec spec{{9, 9}};
  const Bytes param = small_integers(81, 8), grad = small_integers(81, 9);
  const auto want = run_rule(rule, {}, spec, param, grad, {ir::Mode::Strict, "interp", 1, {}, 1});
  ASSERT_TRUE(want) << want.error().message;
  for (const ir::Mode mode : {ir::Mode::Strict, ir::Mode::Default}) {
    const auto got = run_rule(rule, {}, spec, param, grad, {mode, "cuda", 1, {}, 1});
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(difference(DType::F32, want->param, got->param), "");
  }
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

double norm(const std::vector<double>& a) { return distance(a, std::vector<double>(a.size())); }

/// Against the exact interpreter, by the tolerances of the design: `tolerance` of the update, and what storing costs.
void expect_close(const std::vector<RigGroup>& groups, const std::vector<RigParameter>& parameters, double tolerance) {
  constexpr int kSteps = 3;
  Rig exact(groups, parameters, {ir::Mode::Default, "interp", {}, {}});
  Rig cuda(groups, parameters, {ir::Mode::Default, "cuda", {}, {}});
  const std::vector<RigValues> before = all_values(exact);
  exact.step(kSteps);
  cuda.step(kSteps);
  for (uint32_t p = 0; p < exact.size(); ++p) {
    const DType type = parameters[p].spec.param;
    const RigValues want = exact.values(p), got = cuda.values(p);
    const auto reference = to_doubles(type, want.param);
    const double update = distance(reference, to_doubles(type, before[p].param));
    const double u = type == DType::BF16 ? 0x1p-9 : 0x1p-24;
    EXPECT_LE(distance(to_doubles(type, got.param), reference),
              tolerance * update + 4 * u * std::sqrt(kSteps) * norm(reference))
        << "parameter " << p;
    const DType state = parameters[p].spec.state;
    const auto moment = to_doubles(state, want.states.at(0));
    const double store = state == DType::BF16 ? 4 * 0x1p-9 * std::sqrt(kSteps) : 2e-6;
    EXPECT_LE(distance(to_doubles(state, got.states.at(0)), moment), store * norm(moment)) << "parameter " << p;
  }
}

/// Tall, wide, square and odd matrices, several of one shape, aligned and not, in one step.
std::vector<RigParameter> matrices(DType type) {
  std::vector<RigParameter> parameters;
  for (const auto& shape :
       {std::vector<int64_t>{48, 96}, {48, 96}, {96, 48}, {64, 64}, {33, 57}, {57, 33}, {48, 96}, {33, 57}}) {
    RigParameter parameter;
    parameter.spec = {shape, type, type, type};
    parameter.shift = parameters.size() == 2 || parameters.size() == 7 ? 1 : 0;
    parameters.push_back(parameter);
  }
  return parameters;
}

using MuonSteps = CudaExecutor;

TEST_F(MuonSteps, OfF32AreWithinTheBoundOfF32) {
  expect_close({{"muon", {{"ns_dtype", "f32"}, {"lr", "0.05"}}}}, matrices(DType::F32), 5e-5);
}

TEST_F(MuonSteps, OfBf16AreWithinTheBoundOfBf16) {
  expect_close({{"muon", {{"lr", "0.05"}}}}, matrices(DType::F32), 3e-2);
  expect_close({{"muon", {{"lr", "0.05"}, {"nesterov", "false"}}}}, matrices(DType::BF16), 3e-2);
}

}  // namespace
}  // namespace stepfuse::tests
