// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Strict steps on the device have the bits of strict steps on the CPU, where no product is in them: whatever shapes,
// types, layouts and groups share a step.
#include "tests/vgpu/executor/rig.h"

namespace stepfuse::tests {
namespace {

using ir::DType;

ir::ParameterSpec spec(std::vector<int64_t> shape, DType param = DType::F32, DType grad = DType::F32,
                       DType state = DType::F32) {
  return {std::move(shape), param, grad, state};
}

RigParameter in_group(uint32_t group, ir::ParameterSpec spec) {
  RigParameter parameter;
  parameter.group = group;
  parameter.spec = std::move(spec);
  return parameter;
}

/// Steps with a schedule and new gradients on both targets, in several orders.
void expect_cpus_bits(const std::vector<RigGroup>& groups, const std::vector<RigParameter>& parameters) {
  Rig cpu(groups, parameters, {ir::Mode::Strict, "cpu", {}, {}});
  Rig cuda(groups, parameters, {ir::Mode::Strict, "cuda", {}, {}});
  for (uint64_t step = 0; step < 4; ++step) {
    if (virtual_driver() != nullptr) virtual_driver()->set_seed(step);
    for (Rig* rig : {&cpu, &cuda}) {
      for (uint32_t g = 0; g < groups.size(); ++g)
        rig->set(g, "lr", 0.01 * (g + 1.0) / (static_cast<double>(step) + 1.0));
      rig->step();
      for (uint32_t p = 0; p < rig->size(); ++p) rig->new_gradient(p, 77 * step + p);
    }
    expect_same(cuda, cpu);
  }
  cuda.expect_gaps_untouched();
  EXPECT_LE(cuda.optimizer().report().graphs, 1);
}

using StrictBits = CudaExecutor;

TEST_F(StrictBits, OfAdamWOnManyShapesAndTypes) {
  std::vector<RigParameter> parameters;
  for (const auto& shape : {std::vector<int64_t>{1}, {3}, {4096}, {4097}, {64, 65}, {2, 3, 5, 7}, {12289}})
    parameters.push_back(in_group(0, spec(shape)));
  parameters.push_back(in_group(0, spec({50, 33}, DType::BF16, DType::BF16, DType::BF16)));
  parameters.push_back(in_group(0, spec({50, 33}, DType::F16, DType::F16, DType::F16)));
  parameters.push_back(in_group(0, spec({5000}, DType::F32, DType::BF16, DType::F32)));
  parameters.push_back(in_group(0, spec({5000}, DType::BF16, DType::BF16, DType::F32)));
  parameters.push_back(in_group(0, spec({1001}, DType::F64, DType::F64, DType::F64)));
  expect_cpus_bits({{"adamw", {{"weight_decay", "0.1"}}}}, parameters);
}

/// Equal rules in one launch, each parameter by its own group's numbers.
TEST_F(StrictBits, OfTwoGroupsInOneLaunch) {
  std::vector<RigParameter> parameters;
  for (uint32_t p = 0; p < 6; ++p) parameters.push_back(in_group(p % 2, spec({100 + 1000 * p})));
  const std::vector<RigGroup> groups{{"adamw", {{"weight_decay", "0.1"}}}, {"adamw", {{"betas", "0.8,0.99"}}}};
  expect_cpus_bits(groups, parameters);
  Rig rig(groups, parameters, {});
  rig.step();
  EXPECT_EQ(rig.optimizer().report().last_step.elementwise, 1);
}

TEST_F(StrictBits, OfSeveralRecipesInOneStep) {
  const std::vector<RigGroup> groups{{"adamw", {}},
                                     {"sgd", {{"momentum", "0.9"}, {"nesterov", "true"}, {"weight_decay", "0.01"}}},
                                     {"adam", {{"amsgrad", "true"}, {"maximize", "true"}}},
                                     {"sgd", {}}};
  std::vector<RigParameter> parameters;
  for (uint32_t p = 0; p < 12; ++p)
    parameters.push_back(in_group(p % 4, spec({7 + p, 300}, p < 8 ? DType::F32 : DType::BF16)));
  expect_cpus_bits(groups, parameters);
}

/// Tensors that start one element behind an aligned address: the generic kernels, next to the aligned ones.
TEST_F(StrictBits, OfUnalignedTensorsBesideAlignedOnes) {
  std::vector<RigParameter> parameters;
  for (const DType type : {DType::F32, DType::BF16})
    for (int64_t shift = 0; shift < 4; ++shift) {
      parameters.push_back(in_group(0, spec({4096 + 5}, type, type, type)));
      parameters.back().shift = shift;
    }
  expect_cpus_bits({{"adamw", {}}}, parameters);
}

TEST_F(StrictBits, OfStridedTensorsAndStatesOfTheCaller) {
  std::vector<RigParameter> parameters;
  for (const bool caller_states : {false, true})
    for (const int64_t shift : {0, 1}) {
      RigParameter strided = in_group(0, spec({37, 61}));
      strided.strides = {80, 1};
      strided.grad_strides = {1, 40};
      strided.shift = shift;
      strided.caller_states = caller_states;
      parameters.push_back(strided);
      RigParameter dense = in_group(0, spec({130, 33}));
      dense.shift = shift;
      dense.caller_states = caller_states;
      parameters.push_back(dense);
    }
  expect_cpus_bits({{"adamw", {}}}, parameters);
}

TEST_F(StrictBits, OfEmptyAndOneElementParameters) {
  std::vector<RigParameter> parameters;
  for (const auto& shape : {std::vector<int64_t>{0}, {1}, {3, 0}, {1, 1}, {}})
    parameters.push_back(in_group(0, spec(shape)));
  expect_cpus_bits({{"adamw", {}}}, parameters);
  parameters = {in_group(0, spec({0, 4}))};
  expect_cpus_bits({{"adamw", {}}}, parameters);
}

/// PyTorch issue 119885: elements at the edges of a multi-tensor add were missed.
TEST_F(StrictBits, A38_EveryElementOfSixtyTensorsIsAddedTo) {
  std::vector<RigParameter> parameters;
  const std::vector<std::vector<int64_t>> shapes{{13, 256}, {51, 256}, {256},  {768}, {64, 256},
                                                 {1},       {4095},    {4097}, {5}};
  for (size_t p = 0; p < 60; ++p) {
    parameters.push_back(in_group(0, spec(shapes[p % shapes.size()])));
    parameters.back().shift = static_cast<int64_t>(p % 5);
  }
  parameters.push_back(in_group(0, spec({1024, 256})));
  const std::string rule =
      "// stepfuse-ir v1\nrecipe @plus(%p: f32[N] param, %g: f32[N] grad) {\n"
      "  %z = mul %g, 0 : f32\n  %a = mul %p, 0 : f32\n  %b = add %a, %z : f32\n  %q = add %b, 1 : f32\n"
      "  return %q -> %p\n}\n";
  Rig rig({{rule, {}}}, parameters, {ir::Mode::Strict, "cuda", {}, {}});
  rig.step();
  for (uint32_t p = 0; p < rig.size(); ++p)
    for (const double value : to_doubles(DType::F32, rig.values(p).param)) ASSERT_EQ(value, 1) << "parameter " << p;
  rig.expect_gaps_untouched();
}

}  // namespace
}  // namespace stepfuse::tests
