// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Misuse of the public C++ API: every call is refused with the right code, a message that names the thing and a hint,
// and leaves the optimizer as it was: it still takes the step it would have taken.
#include "stepfuse/stepfuse.hpp"

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <ostream>

#include <gtest/gtest.h>

namespace stepfuse {
namespace {

constexpr std::size_t kElements = 64;

/// An optimizer with two parameters, and memory for more than they need.
struct Bench {
  Optimizer optimizer;
  GroupId adamw, muon;
  ParameterId vector, matrix;
  std::vector<float> a = std::vector<float>(2 * kElements, 1), da = std::vector<float>(2 * kElements, 0.5F);
  std::vector<float> b = std::vector<float>(2 * kElements, 2), db = std::vector<float>(2 * kElements, 0.25F);

  explicit Bench(const std::string& target) : optimizer(Settings{Numerics::Strict, target, 2, {}}) {
    adamw = optimizer.add_group("adamw", {{"lr", "0.1"}});
    muon = optimizer.add_group("muon", {{"ns_dtype", "f32"}});
    vector = optimizer.add_parameter(adamw, "vector", {kElements});
    matrix = optimizer.add_parameter(muon, "matrix", {8, 8});
  }
  void prepare() {
    optimizer.prepare();
    optimizer.bind(vector, a.data(), da.data());
    optimizer.bind(matrix, b.data(), db.data());
  }
  std::vector<float> values() const {
    std::vector<float> all = a;
    all.insert(all.end(), b.begin(), b.end());
    return all;
  }
};

struct BadCall {
  const char* name;
  std::function<void(Bench&)> call;
  ErrorCode code;
  const char* message;
  const char* hint = "";
};

void PrintTo(const BadCall& bad, std::ostream* stream) { *stream << bad.name; }
std::string name_of(const testing::TestParamInfo<BadCall>& info) { return info.param.name; }

void expect_refused(const BadCall& bad, Bench& bench) {
  try {
    bad.call(bench);
    FAIL() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), bad.code) << error.what();
    EXPECT_NE(std::string(error.what()).find(bad.message), std::string::npos) << error.what();
    EXPECT_NE(error.hint(), "") << error.what();
    EXPECT_NE(error.hint().find(bad.hint), std::string::npos) << error.hint();
  }
}

/// What an optimizer that nobody misused does in two steps.
std::vector<float> undisturbed(const std::string& target) {
  Bench bench(target);
  bench.prepare();
  bench.optimizer.step();
  bench.optimizer.step();
  return bench.values();
}

constexpr auto kInvalid = ErrorCode::InvalidArgument;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class ApiBeforePrepare : public testing::TestWithParam<BadCall> {};

TEST_P(ApiBeforePrepare, IsRefusedAndChangesNothing) {
  Bench bench("cpu");
  expect_refused(GetParam(), bench);
  bench.prepare();
  bench.optimizer.step();
  bench.optimizer.step();
  EXPECT_EQ(bench.values(), undisturbed("cpu"));
}

const char* const kMatrixRule = R"(// stepfuse-ir v1
recipe @mine(%p: f32[R, C] param, %g: f32[R, C] grad, #lr: group in [0, inf)) {
  %p1 = axpy (-#lr), %g, %p
  return %p1 -> %p
})";

INSTANTIATE_TEST_SUITE_P(
    Calls, ApiBeforePrepare,
    testing::ValuesIn(std::vector<BadCall>{
        {"bind", [](Bench& x) { x.optimizer.bind(x.vector, x.a.data(), x.da.data()); }, kInvalid, "bind before prepare",
         "prepare"},
        {"step", [](Bench& x) { x.optimizer.step(); }, kInvalid, "step before prepare", "prepare"},
        {"state", [](Bench& x) { x.optimizer.state(x.vector, "exp_avg"); }, kInvalid, "states before prepare",
         "prepare"},
        {"state_keys", [](Bench& x) { x.optimizer.state_keys(x.vector); }, kInvalid, "states before prepare",
         "prepare"},
        {"unknown_recipe", [](Bench& x) { x.optimizer.add_group("adamv"); }, kInvalid, "no recipe 'adamv'", "adamw"},
        {"empty_recipe", [](Bench& x) { x.optimizer.add_group(""); }, kInvalid, "no recipe ''", "adamw"},
        {"unknown_option", [](Bench& x) { x.optimizer.add_group("adamw", {{"weight_decai", "1"}}); }, kInvalid,
         "no option 'weight_decai'", "weight_decay"},
        {"option_twice", [](Bench& x) { x.optimizer.add_group("adamw", {{"lr", "1"}, {"lr", "2"}}); }, kInvalid,
         "lr is given twice"},
        {"option_overlaps", [](Bench& x) { x.optimizer.add_group("adamw", {{"betas", "0,0"}, {"beta1", "0"}}); },
         kInvalid, "beta1 is given twice"},
        {"option_nan", [](Bench& x) { x.optimizer.add_group("adamw", {{"lr", "nan"}}); }, kInvalid, "lr=nan",
         "[0, inf)"},
        {"option_text", [](Bench& x) { x.optimizer.add_group("adamw", {{"lr", "fast"}}); }, kInvalid,
         "lr: expected a number, got 'fast'", "a number"},
        {"option_empty", [](Bench& x) { x.optimizer.add_group("adamw", {{"lr", ""}}); }, kInvalid,
         "lr: expected a number, got ''", "a number"},
        {"option_flag", [](Bench& x) { x.optimizer.add_group("adamw", {{"amsgrad", "yes"}}); }, kInvalid, "amsgrad=yes",
         "true or false"},
        {"option_choice", [](Bench& x) { x.optimizer.add_group("muon", {{"adjust_lr_fn", "orig"}}); }, kInvalid,
         "adjust_lr_fn=orig", "match_rms_adamw"},
        {"options_together", [](Bench& x) { x.optimizer.add_group("sgd", {{"nesterov", "true"}}); }, kInvalid,
         "nesterov needs momentum", "momentum=0.9"},
        {"rule_malformed", [](Bench& x) { x.optimizer.add_group("// stepfuse-ir v1\nrecipe @x(%p"); },
         ErrorCode::InvalidData, "<rule>:2"},
        {"rule_missing_file", [](Bench& x) { x.optimizer.add_group("no/such.sfir"); }, ErrorCode::NotFound,
         "no/such.sfir"},
        {"rule_without_value", [](Bench& x) { x.optimizer.add_group(kMatrixRule); }, kInvalid, "lr has no value"},
        {"rule_unknown_hyper", [](Bench& x) { x.optimizer.add_group(kMatrixRule, {{"lrr", "1"}}); }, kInvalid,
         "no hyperparameter 'lrr'", "lr"},
        {"rule_element_type",
         [](Bench& x) {
           x.optimizer.add_parameter(x.optimizer.add_group(kMatrixRule, {{"lr", "1"}}), "m", {2, 2}, ElementType::BF16);
         },
         kInvalid, "parameter 'm': rule mine: %p is f32, the tensor is bf16"},
        {"muon_vector", [](Bench& x) { x.optimizer.add_parameter(x.muon, "bias", {8}); }, kInvalid,
         "'bias': muon takes matrices", "adamw"},
        {"muon_three_dimensions", [](Bench& x) { x.optimizer.add_parameter(x.muon, "conv", {8, 8, 3}); }, kInvalid,
         "this parameter has 3", "adamw"},
        {"muon_scalar", [](Bench& x) { x.optimizer.add_parameter(x.muon, "gain", {}); }, kInvalid, "'gain'"},
        {"name_twice", [](Bench& x) { x.optimizer.add_parameter(x.adamw, "vector", {8}); }, kInvalid,
         "'vector' was added before"},
        {"negative_extent", [](Bench& x) { x.optimizer.add_parameter(x.adamw, "n", {4, -1}); }, kInvalid,
         "'n': extent -1"},
        {"too_large", [](Bench& x) { x.optimizer.add_parameter(x.adamw, "n", {1LL << 40, 1LL << 40}); }, kInvalid,
         "more elements than memory can hold"},
        {"group_id", [](Bench& x) { x.optimizer.add_parameter(GroupId{7}, "n", {4}); }, kInvalid, "no group number 7"},
        {"set_nan", [](Bench& x) { x.optimizer.set(x.adamw, "lr", kNan); }, kInvalid, "lr=nan", "[0, inf)"},
        {"set_unknown", [](Bench& x) { x.optimizer.set(x.adamw, "lrr", 1); }, kInvalid, "'lrr'", "lr"},
        {"set_empty_group", [](Bench& x) { x.optimizer.set(x.optimizer.add_group("sgd"), "lr", 1); }, kInvalid,
         "which has no parameters yet", "add_group"},
        {"rule_rank",
         [](Bench& x) { x.optimizer.add_parameter(x.optimizer.add_group(kMatrixRule, {{"lr", "1"}}), "bias", {8}); },
         kInvalid, "parameter 'bias': rule mine takes a parameter of shape [R, C], got [8]", "another rule"},
        {"element_type", [](Bench& x) { x.optimizer.add_parameter(x.adamw, "n", {4}, static_cast<ElementType>(77)); },
         kInvalid, "unknown element type", "BF16"}}),
    name_of);

class ApiAfterPrepare : public testing::TestWithParam<BadCall> {};

TEST_P(ApiAfterPrepare, IsRefusedAndChangesNothing) {
  for (const char* target : {"cpu", "interp"}) {
    Bench bench(target);
    bench.prepare();
    bench.optimizer.step();
    expect_refused(GetParam(), bench);
    EXPECT_THROW(bench.optimizer.bind(bench.matrix, bench.a.data(), bench.db.data()), Error) << "bindings were lost";
    EXPECT_THROW(bench.optimizer.bind(bench.matrix, bench.b.data(), bench.da.data()), Error) << "bindings were lost";
    bench.optimizer.step();
    EXPECT_EQ(bench.values(), undisturbed(target));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, ApiAfterPrepare,
    testing::ValuesIn(std::vector<BadCall>{
        {"prepare_twice", [](Bench& x) { x.optimizer.prepare(); }, kInvalid, "prepare after prepare"},
        {"add_group", [](Bench& x) { x.optimizer.add_group("sgd"); }, kInvalid, "add_group after prepare"},
        {"add_parameter", [](Bench& x) { x.optimizer.add_parameter(x.adamw, "n", {4}); }, kInvalid,
         "add_parameter after prepare"},
        {"null_parameter", [](Bench& x) { x.optimizer.bind(x.vector, nullptr, x.da.data()); }, kInvalid,
         "'vector' is bound to a null pointer"},
        {"params_overlap", [](Bench& x) { x.optimizer.bind(x.vector, x.b.data() + kElements - 1, x.da.data()); },
         kInvalid, "parameter 'vector' overlaps parameter 'matrix'", "tied"},
        {"params_same", [](Bench& x) { x.optimizer.bind(x.vector, x.b.data(), x.da.data()); }, kInvalid,
         "overlaps parameter 'matrix'"},
        {"gradient_on_parameter", [](Bench& x) { x.optimizer.bind(x.vector, x.a.data(), x.b.data() + 1); }, kInvalid,
         "the gradient of 'vector' overlaps parameter 'matrix'"},
        {"gradient_on_own_parameter", [](Bench& x) { x.optimizer.bind(x.vector, x.a.data(), x.a.data()); }, kInvalid,
         "the gradient of 'vector' overlaps parameter 'vector'"},
        {"gradients_overlap", [](Bench& x) { x.optimizer.bind(x.vector, x.a.data(), x.db.data()); }, kInvalid,
         "the gradient of 'vector' overlaps the gradient of 'matrix'"},
        {"parameter_on_state",
         [](Bench& x) { x.optimizer.bind(x.vector, x.optimizer.state(x.matrix, "momentum_buffer").data, x.da.data()); },
         kInvalid, "parameter 'vector' overlaps state 'momentum_buffer' of 'matrix'"},
        {"parameter_misaligned",
         [](Bench& x) { x.optimizer.bind(x.vector, reinterpret_cast<std::byte*>(x.a.data()) + 2, x.da.data()); },
         kInvalid, "'vector' is not aligned"},
        {"gradient_misaligned",
         [](Bench& x) { x.optimizer.bind(x.vector, x.a.data(), reinterpret_cast<const std::byte*>(x.da.data()) + 1); },
         kInvalid, "'vector' is not aligned"},
        {"parameter_id", [](Bench& x) { x.optimizer.bind(ParameterId{9}, x.a.data(), x.da.data()); }, kInvalid,
         "no parameter number 9"},
        {"state_id", [](Bench& x) { x.optimizer.state(ParameterId{9}, "exp_avg"); }, kInvalid, "no parameter number 9"},
        {"state_key", [](Bench& x) { x.optimizer.state(x.matrix, "exp_avg"); }, kInvalid, "no state 'exp_avg'",
         "momentum_buffer"},
        {"steps_id", [](Bench& x) { (void)x.optimizer.steps(ParameterId{9}); }, kInvalid, "no parameter number 9"},
        {"set_steps_id", [](Bench& x) { x.optimizer.set_steps(ParameterId{9}, 1); }, kInvalid, "no parameter number 9"},
        {"set_steps_negative", [](Bench& x) { x.optimizer.set_steps(x.vector, -1); }, kInvalid, "-1"},
        {"set_steps_inexact", [](Bench& x) { x.optimizer.set_steps(x.vector, 1LL << 53); }, kInvalid,
         "9007199254740992"},
        {"set_group_id", [](Bench& x) { x.optimizer.set(GroupId{9}, "lr", 1); }, kInvalid, "no group number 9"},
        {"set_unknown", [](Bench& x) { x.optimizer.set(x.adamw, "learning_rate", 1); }, kInvalid, "'learning_rate'",
         "lr"},
        {"set_structural", [](Bench& x) { x.optimizer.set(x.adamw, "amsgrad", 1); }, kInvalid,
         "'amsgrad' cannot be changed between steps"},
        {"set_structural_steps", [](Bench& x) { x.optimizer.set(x.muon, "ns_steps", 7); }, kInvalid,
         "'ns_steps' cannot be changed between steps"},
        {"set_nan", [](Bench& x) { x.optimizer.set(x.adamw, "lr", kNan); }, kInvalid, "lr=nan", "[0, inf)"},
        {"set_range", [](Bench& x) { x.optimizer.set(x.adamw, "beta1", 1); }, kInvalid, "beta1=1", "[0, 1)"},
        {"explain_format", [](Bench& x) { (void)x.optimizer.explain("yaml"); }, kInvalid, "no format 'yaml'", "json"}}),
    name_of);

struct BadSettings {
  const char* name;
  Settings settings;
  ErrorCode code;
  const char* message;
  const char* hint;
};

TEST(ApiSettings, AreRefused) {
  const BadSettings cases[] = {
      {"target", {Numerics::Default, "cpus", 0, {}}, kInvalid, "cpus", "cpu"},
      {"target without steps", {Numerics::Default, "sm_90", 0, {}}, kInvalid, "no step runs on it", "cpu"},
      {"threads", {Numerics::Default, "cpu", -1, {}}, kInvalid, "threads=-1", "1024"},
      {"too many threads", {Numerics::Default, "cpu", 1025, {}}, kInvalid, "threads=1025", "1024"},
      {"pass", {Numerics::Default, "cpu", 0, {"fuze"}}, kInvalid, "fuze", "fuse"}};
  for (const BadSettings& bad : cases) {
    SCOPED_TRACE(bad.name);
    try {
      const Optimizer optimizer(bad.settings);
      ADD_FAILURE() << "was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), bad.code) << error.what();
      EXPECT_NE(std::string(error.what()).find(bad.message), std::string::npos) << error.what();
      EXPECT_NE(error.hint().find(bad.hint), std::string::npos) << error.hint();
    }
  }
}

/// An optimizer without parameters has nothing to do, and says nothing about it.
TEST(ApiRules, NoParametersIsLegal) {
  Optimizer optimizer;
  optimizer.prepare();
  optimizer.step();
  EXPECT_EQ(optimizer.summary().launches, 0);
}

/// A null gradient pauses a parameter: neither it nor its step count changes.
TEST(ApiRules, NullGradientPausesTheParameter) {
  Bench bench("cpu");
  bench.prepare();
  bench.optimizer.bind(bench.vector, bench.a.data(), nullptr);
  bench.optimizer.step();
  EXPECT_EQ(bench.a, std::vector<float>(2 * kElements, 1));
  EXPECT_EQ(bench.optimizer.steps(bench.vector), 0);
  EXPECT_EQ(bench.optimizer.steps(bench.matrix), 1);
  bench.optimizer.bind(bench.vector, bench.a.data(), bench.da.data());
  bench.optimizer.step();
  EXPECT_NEAR(bench.a[0], 0.999 - 0.1, 1e-6) << "its first step: decay, then lr";
  EXPECT_EQ(bench.a[kElements], 1) << "beyond its end";
  EXPECT_EQ(bench.optimizer.steps(bench.vector), 1);
}

}  // namespace
}  // namespace stepfuse
