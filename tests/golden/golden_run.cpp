// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/golden_run.h"

#include "stepfuse/stepfuse.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace stepfuse::golden {

namespace {

void check(const Outcome& outcome) {
  if (!outcome) throw std::runtime_error(outcome.error().message);
}

/// A tensor's memory on the device. A null gradient means "none", so an empty tensor needs an address too.
class PlacedTensor {
 public:
  PlacedTensor(runtime::Device& device, const GoldenTensor& tensor) : device_(&device) {
    auto memory = runtime::DeviceMemory::create(device, std::max<std::int64_t>(1, bytes_of(tensor)), "a test");
    if (!memory) throw std::runtime_error(memory.error().message);
    memory_ = std::move(*memory);
    write(tensor);
  }
  void write(const GoldenTensor& tensor) {
    if (!tensor.bytes.empty()) check(device_->write(memory_.get(), tensor.bytes.data(), bytes_of(tensor)));
  }
  void* get() const { return memory_.get(); }

 private:
  static std::int64_t bytes_of(const GoldenTensor& tensor) { return static_cast<std::int64_t>(tensor.bytes.size()); }
  runtime::Device* device_;
  runtime::DeviceMemory memory_;
};

/// One parameter of a case with the memory that the optimizer is bound to.
struct Bound {
  std::string name;
  ParameterId id;
  GoldenTensor before;
  PlacedTensor data;
  PlacedTensor gradient;
};

std::vector<Bound> add_parameters(Optimizer& optimizer, const GoldenCase& golden, const GoldenFile& file,
                                  runtime::Device& device) {
  const GroupId group = optimizer.add_group(golden.recipe, golden.options);
  std::vector<Bound> bound;
  for (const std::string& name : file.parameters()) {
    const GoldenTensor before = file.before(name);
    const ParameterId id = optimizer.add_parameter(group, name, before.shape, golden.dtype);
    bound.push_back({name, id, before, {device, before}, {device, file.gradient(name, 1)}});
  }
  return bound;
}

void take_step(Optimizer& optimizer, const GoldenFile& file, std::vector<Bound>& bound, int step) {
  for (Bound& each : bound) {
    each.gradient.write(file.gradient(each.name, step));
    optimizer.bind(each.id, each.data.get(), each.gradient.get());
  }
  optimizer.step();
}

GoldenTensor copy_of(const runtime::Device& device, const TensorView& view) {
  std::size_t bytes = view.dtype == ElementType::BF16 ? 2 : 4;
  for (const std::int64_t extent : view.shape) bytes *= static_cast<std::size_t>(extent);
  GoldenTensor copy{view.dtype, view.shape, std::vector<std::byte>(bytes)};
  if (bytes > 0) check(device.read(copy.bytes.data(), view.data, static_cast<std::int64_t>(bytes)));
  return copy;
}

GoldenResult result_of(const Optimizer& optimizer, const Bound& bound, const runtime::Device& device) {
  const TensorView data{bound.data.get(), bound.before.dtype, bound.before.shape, {}};
  GoldenResult result{copy_of(device, data), {}, optimizer.steps(bound.id)};
  for (const std::string& key : optimizer.state_keys(bound.id))
    if (key != "step") result.states[key] = copy_of(device, optimizer.state(bound.id, key));
  return result;
}

std::set<std::string> keys_of(const std::map<std::string, GoldenTensor>& states) {
  std::set<std::string> keys;
  for (const auto& [key, tensor] : states)
    if (key != "step") keys.insert(key);
  return keys;
}

}  // namespace

Settings settings_for(const std::string& target, Numerics numerics) {
  Settings settings;
  settings.target = target;
  settings.numerics = numerics;
  settings.threads = 2;
  return settings;
}

std::map<std::string, GoldenResult> run_golden(const GoldenCase& golden, const GoldenFile& file,
                                               const Settings& settings, runtime::Device& device) {
  Optimizer optimizer(settings);
  std::vector<Bound> bound = add_parameters(optimizer, golden, file, device);
  optimizer.prepare();
  for (int step = 1; step <= golden.steps; ++step) take_step(optimizer, file, bound, step);
  std::map<std::string, GoldenResult> results;
  for (const Bound& each : bound) results[each.name] = result_of(optimizer, each, device);
  return results;
}

std::map<std::string, GoldenResult> run_golden(const GoldenCase& golden, const GoldenFile& file,
                                               const Settings& settings) {
  const auto host = runtime::make_host_device(runtime::default_allocator());
  return run_golden(golden, file, settings, *host);
}

void expect_peers_results(const GoldenCase& golden, const GoldenFile& file, Numerics numerics,
                          const std::map<std::string, GoldenResult>& results) {
  SCOPED_TRACE("against " + golden.peer);
  ASSERT_FALSE(file.parameters().empty());
  for (const auto& [name, result] : results) {
    SCOPED_TRACE("parameter " + name);
    EXPECT_TRUE(parameter_agrees(golden, numerics, result.parameter, file.after(name), file.before(name)));
    const auto expected = file.states(name);
    ASSERT_EQ(keys_of(result.states), keys_of(expected));
    for (const auto& [key, state] : result.states)
      EXPECT_TRUE(state_agrees(golden, numerics, state, expected.at(key))) << "state " << key;
    EXPECT_EQ(result.steps, golden.steps);
  }
}

void expect_tall_equals_wide(const std::map<std::string, GoldenResult>& results) {
  const GoldenTensor& tall = results.at("tall").parameter;
  const std::vector<double> tall_values = tall.values();
  const std::vector<double> wide_values = results.at("wide").parameter.values();
  const auto rows = static_cast<std::size_t>(tall.shape[0]);
  const auto cols = static_cast<std::size_t>(tall.shape[1]);
  ASSERT_EQ(tall_values.size(), wide_values.size());
  for (std::size_t i = 0; i < rows * cols; ++i)
    EXPECT_EQ(tall_values[i], wide_values[(i % cols) * rows + i / cols])
        << "row " << i / cols << ", column " << i % cols;
}

}  // namespace stepfuse::golden
