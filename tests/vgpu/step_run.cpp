// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/step_run.h"

#include "runtime/element.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

namespace stepfuse::test {

using ir::DType;
using runtime::DeviceMemory;

namespace {

runtime::Optimizer make_optimizer(ir::Mode mode, const std::string& target) {
  runtime::OptimizerSettings settings;
  settings.mode = mode;
  settings.target = target;
  settings.threads = 1;
  auto optimizer = runtime::Optimizer::create(settings);
  if (!optimizer) throw std::runtime_error(optimizer.error().message);
  return std::move(*optimizer);
}

std::vector<std::byte> encode(const Values& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(ir::dtype_bytes(dtype)));
  for (size_t i = 0; i < values.size(); ++i)
    runtime::store_element(bytes.data(), dtype, static_cast<int64_t>(i), values[i]);
  return bytes;
}

}  // namespace

Values random_values(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Values values(static_cast<size_t>(count));
  for (double& value : values) value = normal(random);
  return values;
}

Values random_integers(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values(static_cast<size_t>(count));
  for (double& value : values) value = static_cast<double>(random() % 5) - 2;
  return values;
}

ModelRun::ModelRun(const std::vector<ModelGroup>& groups, const std::vector<ModelTensor>& tensors, ir::Mode mode,
                   const std::string& target, Fill fill)
    : tensors_(tensors), fill_(fill), optimizer_(make_optimizer(mode, target)) {
  for (const ModelGroup& group : groups) check(optimizer_.add_group(group.rule, group.options).map([](const auto&) {}));
  for (size_t t = 0; t < tensors.size(); ++t) {
    const ir::ParameterSpec spec{.shape = tensors[t].shape, .param = tensors[t].dtype, .grad = tensors[t].dtype};
    check(optimizer_.add_parameter(tensors[t].group, "w" + std::to_string(t), spec).map([](const auto&) {}));
  }
  check(optimizer_.prepare());
  for (uint32_t t = 0; t < tensors.size(); ++t) {
    const int64_t count = compiler::element_count(tensors[t].shape);
    Memory& memory = memory_.emplace_back();
    memory.parameter = upload(tensors[t], fill(count, 1000 + t), 0);
    add_gradient(t, 2000 + t, tensors[t].gradient_shift);
    bind(t);
  }
}

void ModelRun::check(const Outcome& outcome) {
  if (!outcome) throw std::runtime_error(outcome.error().message);
}

DeviceMemory ModelRun::upload(const ModelTensor& tensor, const Values& values, int64_t shift) {
  const std::vector<std::byte> bytes = encode(values, tensor.dtype);
  const int64_t skipped = shift * ir::dtype_bytes(tensor.dtype);
  auto memory = DeviceMemory::create(optimizer_.device(), static_cast<int64_t>(bytes.size()) + skipped, "a tensor");
  if (!memory) throw std::runtime_error(memory.error().message);
  check(optimizer_.device().write(memory->get() + skipped, bytes.data(), static_cast<int64_t>(bytes.size())));
  return std::move(*memory);
}

Values ModelRun::download(const void* data, int64_t count, DType dtype) {
  std::vector<std::byte> bytes(static_cast<size_t>(count * ir::dtype_bytes(dtype)));
  check(optimizer_.device().read(bytes.data(), data, static_cast<int64_t>(bytes.size())));
  Values values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = runtime::load_element(bytes.data(), dtype, i);
  return values;
}

void ModelRun::bind(uint32_t tensor) {
  const Memory& memory = memory_[tensor];
  const Gradient& gradient = memory.gradients[memory.bound];
  const std::byte* first = gradient.memory.get() + gradient.shift * ir::dtype_bytes(tensors_[tensor].dtype);
  check(optimizer_.bind(tensor, memory.parameter.get(), memory.has_gradient ? first : nullptr));
}

void ModelRun::drop_gradient(uint32_t tensor) {
  memory_[tensor].has_gradient = false;
  bind(tensor);
}

size_t ModelRun::add_gradient(uint32_t tensor, uint64_t seed, int64_t shift) {
  std::vector<Gradient>& gradients = memory_[tensor].gradients;
  const Values values = fill_(compiler::element_count(tensors_[tensor].shape), seed);
  gradients.push_back({upload(tensors_[tensor], values, shift), shift});
  return gradients.size() - 1;
}

void ModelRun::use_gradient(uint32_t tensor, size_t number) {
  memory_[tensor].bound = number;
  memory_[tensor].has_gradient = true;
  bind(tensor);
}

void ModelRun::move_gradient(uint32_t tensor, uint64_t seed, int64_t shift) {
  const size_t before = memory_[tensor].bound;
  use_gradient(tensor, add_gradient(tensor, seed, shift));
  leave(std::move(memory_[tensor].gradients[before].memory), tensor);
}

void ModelRun::move_parameter(uint32_t tensor) {
  Memory& memory = memory_[tensor];
  DeviceMemory before = std::move(memory.parameter);
  const int64_t count = compiler::element_count(tensors_[tensor].shape);
  memory.parameter = upload(tensors_[tensor], download(before.get(), count, tensors_[tensor].dtype), 0);
  bind(tensor);
  leave(std::move(before), tensor);
}

void ModelRun::leave(DeviceMemory memory, uint32_t tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(memory.bytes()), std::byte{0x55});
  check(optimizer_.device().write(memory.get(), bytes.data(), memory.bytes()));
  left_.push_back({std::move(memory), std::move(bytes), tensor});
}

void ModelRun::spoil_gradient(uint32_t tensor, int64_t element) {
  const Gradient& gradient = memory_[tensor].gradients[memory_[tensor].bound];
  const DType dtype = tensors_[tensor].dtype;
  const std::vector<std::byte> nan = encode({std::numeric_limits<double>::quiet_NaN()}, dtype);
  check(optimizer_.device().write(gradient.memory.get() + (gradient.shift + element) * ir::dtype_bytes(dtype),
                                  nan.data(), ir::dtype_bytes(dtype)));
}

Values ModelRun::parameter(uint32_t tensor) {
  return download(memory_[tensor].parameter.get(), compiler::element_count(tensors_[tensor].shape),
                  tensors_[tensor].dtype);
}

std::vector<Values> ModelRun::states(uint32_t tensor) {
  const auto views = optimizer_.states(tensor);
  if (!views) throw std::runtime_error(views.error().message);
  std::vector<Values> states;
  for (const runtime::StateView& view : *views)
    states.push_back(download(view.data, compiler::element_count(view.shape), view.dtype));
  return states;
}

std::string ModelRun::touched() {
  for (const Left& left : left_) {
    std::vector<std::byte> now(left.bytes.size());
    check(optimizer_.device().read(now.data(), left.memory.get(), left.memory.bytes()));
    if (now != left.bytes) return fmt::format("memory that tensor {} had left was written", left.tensor);
  }
  return "";
}

std::string bit_difference(const Values& got, const Values& want) {
  if (got.size() != want.size()) return fmt::format("{} elements, not {}", got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const bool both_nan = std::isnan(got[i]) && std::isnan(want[i]);
    if (!both_nan && std::bit_cast<uint64_t>(got[i]) != std::bit_cast<uint64_t>(want[i]))
      return fmt::format("element {} is {:a}, not {:a}", i, got[i], want[i]);
  }
  return "";
}

std::string far_apart(const Values& got, const Values& want, const Values& before, double tolerance) {
  double apart = 0, moved = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    apart += (got[i] - want[i]) * (got[i] - want[i]);
    moved += (want[i] - before[i]) * (want[i] - before[i]);
  }
  // Not with a NaN.
  if (std::sqrt(apart) <= tolerance * std::sqrt(moved)) return "";
  return fmt::format("{} away, after moving by {}", std::sqrt(apart), std::sqrt(moved));
}

}  // namespace stepfuse::test
