// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole steps on the virtual device against the CPU: small models that have what a step can get wrong. Each runs in
// several of the orders that a device may choose, and no two threads may touch one place unordered.
#include "runtime/cuda/nvrtc.h"
#include "tests/vgpu/lt/lt_control.h"
#include "tests/vgpu/step_run.h"
#include "tests/vgpu/vgpu_control.h"

#include <algorithm>
#include <functional>
#include <ostream>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::test {
namespace {

using ir::Mode;

/// Matrices of two shapes, one of them tall, in two groups that share batches; vectors beside them.
const std::vector<ModelGroup> kGroups{
    {"muon", {{"lr", "0.02"}, {"weight_decay", "0.1"}, {"ns_dtype", "f32"}}},
    {"muon", {{"lr", "0.07"}, {"weight_decay", "0"}, {"ns_dtype", "f32"}}},
    {"adamw", {{"lr", "0.01"}, {"weight_decay", "0.05"}}},
};
const std::vector<ModelTensor> kTensors{
    {0, {24, 40}}, {1, {24, 40}}, {1, {24, 40}}, {0, {24, 40}}, {1, {40, 24}}, {0, {40, 24}},
    {0, {72, 64}}, {2, {4097}},   {2, {300}, 1}, {2, {5}},      {2, {3, 11}},  {1, {72, 64}},
};
constexpr uint32_t kFirstVector = 7, kLastVector = 10;

bool is_matrix(uint32_t tensor) { return kTensors[tensor].group < 2; }

/// What happens to a model between its steps, the same on both targets.
using Script = std::function<void(ModelRun&)>;

void steps(ModelRun& run, int count) {
  for (int i = 0; i < count; ++i) run.step();
}

class Step : public testing::Test {
 protected:
  void SetUp() override {
    const auto settings = runtime::Settings::resolve({}, runtime::Settings::process_environment()).value();
    const auto nvrtc = runtime::Nvrtc::open(settings);
    if (!nvrtc) GTEST_SKIP() << nvrtc.error().message;
    vgpu_set_find_races(1);
  }
  void TearDown() override { vgpu_set_eager(1); }

  /// Everything elementwise to the bit; what went through products, whose sums have another order, within `tolerance`
  /// of the way that the parameter went.
  void compare(ModelRun& device, ModelRun& host, const std::vector<Values>& before, double tolerance) {
    for (uint32_t t = 0; t < device.size(); ++t) {
      const std::string where = fmt::format("tensor {}", t);
      const auto got = device.states(t), want = host.states(t);
      for (size_t s = 0; s < want.size(); ++s)
        EXPECT_EQ(bit_difference(got[s], want[s]), "") << where << " state " << s;
      const Values parameter = device.parameter(t), wanted = host.parameter(t);
      EXPECT_EQ(is_matrix(t) ? far_apart(parameter, wanted, before[t], tolerance) : bit_difference(parameter, wanted),
                "")
          << where;
      EXPECT_EQ(*device.optimizer().steps(t), *host.optimizer().steps(t)) << where;
    }
    EXPECT_EQ(device.touched(), "");
  }

  void run(Mode mode, const Script& script, double tolerance, const std::vector<uint64_t>& seeds) {
    ModelRun host(kGroups, kTensors, mode, "cpu");
    std::vector<Values> before;
    for (uint32_t t = 0; t < host.size(); ++t) before.push_back(host.parameter(t));
    script(host);
    for (const uint64_t seed : seeds) {
      SCOPED_TRACE(fmt::format("seed {}", seed));
      vgpu_set_seed(seed);
      ModelRun device(kGroups, kTensors, mode, "cuda");
      script(device);
      compare(device, host, before, tolerance);
    }
  }
};

TEST_F(Step, StrictGivesTheBitsOfTheCpu) {
  run(Mode::Strict, [](ModelRun& model) { steps(model, 3); }, 1e-4, {1, 2, 3, 4, 5, 6});
}

/// The update is absorbed into the last product, whose factor is each group's own.
TEST_F(Step, DefaultModeKeepsTheGroupsOfABatchApart) {
  ModelRun host(kGroups, kTensors, Mode::Default, "cpu"), device(kGroups, kTensors, Mode::Default, "cuda");
  for (ModelRun* model : {&host, &device}) {
    steps(*model, 1);
    model->set(1, "lr", 0.004);
    steps(*model, 2);
  }
  for (uint32_t t = 0; t < host.size(); ++t)
    EXPECT_EQ(far_apart(device.parameter(t), host.parameter(t),
                        random_values(compiler::element_count(kTensors[t].shape), 1000 + t), 1e-3),
              "")
        << "tensor " << t;
}

uint64_t products_with_workspace() {
  void* const lt = ::dlopen("libcublasLt.so.13", RTLD_NOW);
  const auto count = reinterpret_cast<decltype(&vgpu_lt_workspace_count)>(::dlsym(lt, "vgpu_lt_workspace_count"));
  return count == nullptr ? 0 : count();
}

/// Sums of 192 terms and more are worth splitting, for which cuBLASLt wants a workspace.
TEST_F(Step, ProductsOfBranchesHaveWorkspacesOfTheirOwn) {
  const std::vector<ModelTensor> tensors{{0, {16, 256}}, {0, {24, 192}}};
  ModelRun host(kGroups, tensors, Mode::Default, "cpu");
  steps(host, 2);
  for (const uint64_t seed : {1U, 2U, 3U, 4U}) {
    vgpu_set_seed(seed);
    ModelRun device(kGroups, tensors, Mode::Default, "cuda");
    steps(device, 2);
    for (uint32_t t = 0; t < host.size(); ++t)
      EXPECT_EQ(far_apart(device.parameter(t), host.parameter(t),
                          random_values(compiler::element_count(tensors[t].shape), 1000 + t), 1e-3),
                "")
          << "tensor " << t;
  }
  EXPECT_GT(products_with_workspace(), 1U);
}

/// Schedules, gradients that come and go, tensors that move, to other alignments too.
void live(ModelRun& model) {
  model.drop_gradient(2);
  model.drop_gradient(9);
  model.step();
  model.set(1, "lr", 0.03);
  model.use_gradient(2, 0);
  model.use_gradient(9, 0);
  model.step();
  model.move_gradient(0, 31);
  model.move_gradient(7, 32);
  model.move_parameter(7);
  model.move_parameter(4);
  model.step();
  model.set(0, "lr", 0.5);
  model.set(2, "lr", 0.002);
  model.drop_gradient(1);
  model.move_gradient(8, 33, 0);
  model.step();
  model.move_gradient(10, 34, 1);
  model.move_gradient(1, 35);
  model.step();
}

TEST_F(Step, WhatChangesBetweenStepsReachesTheDevice) { run(Mode::Strict, live, 1e-4, {1, 2, 3}); }

/// Steps that are queued faster than the device takes them, each with tables of its own.
TEST_F(Step, StepsMayQueueUpWithTheirTables) {
  vgpu_set_eager(0);
  run(Mode::Strict,
      [](ModelRun& model) {
        for (uint32_t t = kFirstVector; t <= kLastVector; ++t)
          for (uint64_t seed = 0; seed < 3; ++seed) model.add_gradient(t, 100 * t + seed, kTensors[t].gradient_shift);
        for (size_t i = 0; i < 11; ++i) {
          for (uint32_t t = kFirstVector; t <= kLastVector; ++t) model.use_gradient(t, (i + t) % 4);
          model.set(2, "lr", 0.01 / static_cast<double>(i + 1));
          model.step();
        }
      },
      1e-4, {1, 2});
}

/// The momentum of SGD starts as the gradient: absent states must be seen, once, and what the memory held must not.
TEST_F(Step, AFirstStepFindsItsStatesAbsent) {
  const std::vector<ModelGroup> groups{{"sgd", {{"lr", "0.1"}, {"momentum", "0.9"}, {"dampening", "0.5"}}},
                                       {"adamw", {{"lr", "0.01"}}}};
  const std::vector<ModelTensor> tensors{{0, {70}}, {1, {90}}, {0, {4099}}};
  ModelRun host(groups, tensors, Mode::Strict, "cpu"), device(groups, tensors, Mode::Strict, "cuda");
  for (ModelRun* model : {&host, &device}) {
    model->drop_gradient(2);
    steps(*model, 2);
    model->use_gradient(2, 0);
    steps(*model, 2);
    // Again from the start, over memory that holds numbers now.
    model->optimizer().set_steps(0, 0);
    model->optimizer().set_steps(1, 0);
    steps(*model, 2);
  }
  for (uint32_t t = 0; t < tensors.size(); ++t) {
    EXPECT_EQ(bit_difference(device.parameter(t), host.parameter(t)), "") << t;
    for (size_t s = 0; s < host.states(t).size(); ++s)
      EXPECT_EQ(bit_difference(device.states(t)[s], host.states(t)[s]), "") << t << " state " << s;
  }
}

struct RuleCase {
  const char* name;
  std::vector<int64_t> shape;
  std::string states;
  std::string body;
};

void PrintTo(const RuleCase& rule, std::ostream* out) { *out << rule.name; }

std::string text_of(const RuleCase& rule) {
  const std::string type = fmt::format("f32[{},{}]", rule.shape[0], rule.shape[1]);
  return fmt::format("// stepfuse-ir v1\nrecipe @r(%p: {0} param, %g: {0} grad", type) + rule.states +
         ", #lr: group = 0.5) {\n" + rule.body + "}\n";
}

/// Rules over integers, whose results no order of sums can change: any wrong element shows.
std::vector<RuleCase> rules() {
  const std::string two = R"(, %a: f32[61,67] state "a", %b: f32[61,67] state "b")";
  return {
      {"two states change places",
       {61, 67},
       two,
       "%x = add %a, %g : f32\n %r = axpy #lr, %b, %p : f32\n return %r -> %p, %b -> %a, %x -> %b\n"},
      {"the second factor is transposed",
       {12, 20},
       R"(, %q: f32[12,12] state "q")",
       "%s = matmul %g, %g {tb} : f32\n %r = matmul %s, %g, %p, #lr, 1 : f32\n return %r -> %p, %s -> %q\n"},
      {"the first factor is transposed",
       {12, 20},
       R"(, %q: f32[20,20] state "q")",
       "%s = matmul %g, %g {ta} : f32\n %r = matmul %p, %s, %p, 0.5, 2 : f32\n return %r -> %p, %s -> %q\n"},
      {"rows of odd lengths",
       {7, 13},
       "",
       "%s = matmul %g, %g {tb} : f32\n %r = matmul %s, %g, %p, 1, #lr : f32\n return %r -> %p\n"},
      {"a number on the diagonal",
       {12, 12},
       R"(, %q: f32[12,12] state "q")",
       "%s = matmul %g, %g {tb} : f32\n %d = adddiag %s, #lr : f32\n %e = matmul %d, %g : f32\n"
       "%r = add %p, %e : f32\n return %r -> %p, %d -> %q\n"},
      {"halves one after the other",
       {12, 20},
       "",
       "%u = slice %g {dim=0, begin=0, end=4} : f32\n %v = slice %p {dim=0, begin=4, end=12} : f32\n"
       "%w = concat %v, %u {dim=0} : f32\n %x = axpy #lr, %w, %p : f32\n return %x -> %p\n"},
      {"columns beside each other",
       {12, 20},
       "",
       "%u = slice %g {dim=1, begin=0, end=7} : f32\n %v = slice %p {dim=1, begin=7, end=20} : f32\n"
       "%w = concat %v, %u {dim=1} : f32\n %x = axpy #lr, %w, %p : f32\n return %x -> %p\n"},
      // Unlike slices, products lie with strides of their own.
      {"products beside each other",
       {12, 24},
       "",
       "%u = matmul %g, %p {tb} : f32\n %v = matmul %p, %g {tb} : f32\n"
       "%w = concat %v, %u {dim=1} : f32\n %x = axpy #lr, %w, %p : f32\n return %x -> %p\n"},
      {"the largest of rows and columns",
       {70, 33},
       "",
       "%m = amax %g {rows} : f32\n %c = amax %g {cols} : f32\n %x = mul %p, %m : f32\n %r = axpy #lr, %c, %x : f32\n"
       "return %r -> %p\n"},
      {"sums of long columns",
       {4100, 9},
       R"(, %a: f32[1,9] state "a")",
       "%c = sum %g {cols} : f32\n %b = add %a, %c : f32\n %r = axpy #lr, %b, %p : f32\n return %r -> %p, %b -> %a\n"},
      {"the largest of all",
       {70, 133},
       "",
       "%m = amax %g {all} : f32\n %x = mul %p, %m : f32\n %r = axpy #lr, %g, %x : f32\n return %r -> %p\n"},
  };
}

class Rules : public Step, public testing::WithParamInterface<RuleCase> {};

/// Four tensors that run together, one of them without a gradient at first, one with an unaligned one.
TEST_P(Rules, GiveTheBitsOfTheCpu) {
  const RuleCase& rule = GetParam();
  const std::vector<ModelGroup> groups{{text_of(rule), {}}, {text_of(rule), {}}};
  const std::vector<ModelTensor> tensors{{0, rule.shape}, {1, rule.shape}, {0, rule.shape, 1}, {1, rule.shape}};
  const auto script = [](ModelRun& model) {
    model.set(1, "lr", -1.5);
    model.drop_gradient(3);
    model.step();
    model.use_gradient(3, 0);
    model.spoil_gradient(1, 45);
    model.step();
  };
  ModelRun host(groups, tensors, Mode::Strict, "cpu", random_integers);
  script(host);
  for (const uint64_t seed : {1U, 2U, 3U}) {
    vgpu_set_seed(seed);
    ModelRun device(groups, tensors, Mode::Strict, "cuda", random_integers);
    script(device);
    for (uint32_t t = 0; t < tensors.size(); ++t) {
      EXPECT_EQ(bit_difference(device.parameter(t), host.parameter(t)), "") << "tensor " << t;
      const auto got = device.states(t), want = host.states(t);
      for (size_t s = 0; s < want.size(); ++s)
        EXPECT_EQ(bit_difference(got[s], want[s]), "") << "tensor " << t << " state " << s;
    }
  }
}

std::string test_name(const testing::TestParamInfo<RuleCase>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Rules, testing::ValuesIn(rules()), test_name);

}  // namespace
}  // namespace stepfuse::test
