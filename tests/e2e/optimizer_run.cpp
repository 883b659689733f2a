// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/optimizer_run.h"

#include "runtime/element.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace stepfuse::tests {

using ir::DType;

namespace {

/// A copy in the memory that the optimizer's tensors lie in.
Result<runtime::DeviceMemory> place(runtime::Device& device, const Bytes& bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  STEPFUSE_ASSIGN(auto memory, runtime::DeviceMemory::create(device, std::max<int64_t>(size, 1), "a test"));
  if (size > 0) STEPFUSE_TRY(device.write(memory.get(), bytes.data(), size));
  return memory;
}

Result<Bytes> read(const runtime::Device& device, const void* data, int64_t size) {
  Bytes bytes(static_cast<size_t>(size));
  if (size > 0) STEPFUSE_TRY(device.read(bytes.data(), data, size));
  return bytes;
}

}  // namespace

Result<RunResult> run_rule(const std::string& rule, const ir::OptionList& options, const ir::ParameterSpec& spec,
                           const Bytes& param, const Bytes& grad, const RunSettings& settings) {
  runtime::OptimizerSettings to;
  to.mode = settings.mode;
  to.target = settings.target;
  to.threads = settings.threads;
  to.runner.disabled = settings.disabled;
  STEPFUSE_ASSIGN(runtime::Optimizer optimizer, runtime::Optimizer::create(to));
  STEPFUSE_ASSIGN(const uint32_t group, optimizer.add_group(rule, options));
  STEPFUSE_ASSIGN(const uint32_t index, optimizer.add_parameter(group, "w", spec));
  STEPFUSE_TRY(optimizer.prepare());
  runtime::Device& device = optimizer.device();
  STEPFUSE_ASSIGN(const runtime::DeviceMemory data, place(device, param));
  STEPFUSE_ASSIGN(const runtime::DeviceMemory gradient, place(device, grad));
  STEPFUSE_TRY(optimizer.bind(index, data.get(), gradient.get()));
  for (int i = 0; i < settings.steps; ++i) STEPFUSE_TRY(optimizer.step());
  RunResult result;
  STEPFUSE_ASSIGN(result.param, read(device, data.get(), static_cast<int64_t>(param.size())));
  STEPFUSE_ASSIGN(const auto states, optimizer.states(index));
  for (const runtime::StateView& state : states) {
    const int64_t bytes = compiler::element_count(state.shape) * ir::dtype_bytes(state.dtype);
    STEPFUSE_ASSIGN(Bytes values, read(device, state.data, bytes));
    result.states.push_back(std::move(values));
  }
  result.launched = optimizer.report().last_step;
  result.planned = optimizer.counts();
  return result;
}

Bytes from_doubles(DType dtype, const std::vector<double>& values) {
  Bytes bytes(values.size() * static_cast<size_t>(ir::dtype_bytes(dtype)));
  for (size_t i = 0; i < values.size(); ++i)
    runtime::store_element(bytes.data(), dtype, static_cast<int64_t>(i), values[i]);
  return bytes;
}

std::vector<double> to_doubles(DType dtype, const Bytes& bytes) {
  std::vector<double> values(bytes.size() / static_cast<size_t>(ir::dtype_bytes(dtype)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = runtime::load_element(bytes.data(), dtype, static_cast<int64_t>(i));
  return values;
}

Bytes random_tensor(DType dtype, int64_t count, uint64_t seed, double scale) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = scale * normal(random);
  return from_doubles(dtype, values);
}

std::string difference(DType dtype, const Bytes& a, const Bytes& b) {
  if (a.size() != b.size()) return fmt::format("{} bytes against {}", a.size(), b.size());
  if (a == b) return {};
  const auto size = static_cast<size_t>(ir::dtype_bytes(dtype));
  for (size_t i = 0; i < a.size() / size; ++i) {
    if (std::memcmp(a.data() + i * size, b.data() + i * size, size) == 0) continue;
    const double x = runtime::load_element(a.data(), dtype, static_cast<int64_t>(i));
    const double y = runtime::load_element(b.data(), dtype, static_cast<int64_t>(i));
    if (!std::isnan(x) || !std::isnan(y)) return fmt::format("element {}: {:a} against {:a}", i, x, y);
  }
  return {};
}

}  // namespace stepfuse::tests
