// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/stress/small_model.h"

#include <cmath>
#include <random>
#include <string>

namespace stepfuse::tests {

namespace {

std::vector<float> normal_numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace

SmallModel::SmallModel(const Settings& settings)
    : optimizer_(settings),
      adamw_(optimizer_.add_group("adamw")),
      sgd_(optimizer_.add_group("sgd", {{"momentum", "0.9"}})),
      muon_bf16_(optimizer_.add_group("muon")),
      muon_f32_(optimizer_.add_group("muon", {{"ns_dtype", "f32"}})) {
  for (const std::int64_t extent : {5, 33, 33, 20000}) add(adamw_, {extent});
  for (const std::int64_t extent : {7, 7, 4097}) add(sgd_, {extent, 2});
  for (const GroupId group : {muon_bf16_, muon_f32_}) {
    for (const auto& shape : {std::vector<std::int64_t>{24, 40}, {24, 40}, {24, 40}, {48, 16}, {70, 70}})
      add(group, shape);
  }
  optimizer_.prepare();
  for (Tensor& tensor : tensors_) optimizer_.bind(tensor.id, tensor.data.data(), tensor.gradient.data());
}

void SmallModel::add(GroupId group, const std::vector<std::int64_t>& shape) {
  size_t elements = 1;
  for (const std::int64_t extent : shape) elements *= static_cast<size_t>(extent);
  const auto number = static_cast<unsigned>(tensors_.size());
  const ParameterId id = optimizer_.add_parameter(group, "w" + std::to_string(number), shape);
  tensors_.push_back({id, normal_numbers(elements, 2 * number), normal_numbers(elements, 2 * number + 1)});
}

void SmallModel::scheduled_step(int step) {
  const double wave = 1 + 0.5 * std::sin(0.1 * step);  // 0.5 to 1.5
  for (const GroupId group : {adamw_, sgd_, muon_bf16_, muon_f32_}) {
    optimizer_.set(group, "lr", 1e-3 * wave);
    optimizer_.set(group, "weight_decay", 1e-2 * wave);
  }
  optimizer_.set(adamw_, "beta1", 0.6 * wave);
  for (const GroupId group : {sgd_, muon_bf16_, muon_f32_}) optimizer_.set(group, "momentum", 0.6 * wave);
  optimizer_.step();
}

std::vector<float> SmallModel::parameters() const {
  std::vector<float> all;
  for (const Tensor& tensor : tensors_) all.insert(all.end(), tensor.data.begin(), tensor.data.end());
  return all;
}

}  // namespace stepfuse::tests
