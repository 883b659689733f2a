// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Every golden case through the public C++ API, on both targets and in both numerics modes.
#include "stepfuse/stepfuse.hpp"
#include "tests/golden/golden_cases.h"

#include <set>
#include <tuple>

#include <gtest/gtest.h>

namespace stepfuse::golden {
namespace {

struct Result {
  GoldenTensor parameter;
  std::map<std::string, GoldenTensor> states;
  std::int64_t steps = 0;
};

/// One parameter of a case with the memory that the optimizer is bound to.
struct Bound {
  std::string name;
  ParameterId id;
  GoldenTensor tensor;
  GoldenTensor gradient;
};

/// A null gradient means "none", so an empty tensor needs an address too.
std::byte* address(GoldenTensor& tensor) {
  if (tensor.bytes.capacity() == 0) tensor.bytes.reserve(1);
  return tensor.bytes.data();
}

std::vector<Bound> add_parameters(Optimizer& optimizer, const GoldenCase& golden, const GoldenFile& file) {
  const GroupId group = optimizer.add_group(golden.recipe, golden.options);
  std::vector<Bound> bound;
  for (const std::string& name : file.parameters()) {
    GoldenTensor before = file.before(name);
    const ParameterId id = optimizer.add_parameter(group, name, before.shape, golden.dtype);
    bound.push_back({name, id, std::move(before), {}});
  }
  return bound;
}

void take_step(Optimizer& optimizer, const GoldenFile& file, std::vector<Bound>& bound, int step) {
  for (Bound& each : bound) {
    each.gradient = file.gradient(each.name, step);
    optimizer.bind(each.id, address(each.tensor), address(each.gradient));
  }
  optimizer.step();
}

GoldenTensor copy_of(const TensorView& view) {
  std::size_t bytes = view.dtype == ElementType::BF16 ? 2 : 4;
  for (std::int64_t extent : view.shape) bytes *= static_cast<std::size_t>(extent);
  const auto* data = static_cast<const std::byte*>(view.data);
  return {view.dtype, view.shape, std::vector<std::byte>(data, data + bytes)};
}

Result result_of(const Optimizer& optimizer, const Bound& bound) {
  Result result{bound.tensor, {}, optimizer.steps(bound.id)};
  for (const std::string& key : optimizer.state_keys(bound.id))
    if (key != "step") result.states[key] = copy_of(optimizer.state(bound.id, key));
  return result;
}

std::map<std::string, Result> run(const GoldenCase& golden, const GoldenFile& file, const Settings& settings) {
  Optimizer optimizer(settings);
  std::vector<Bound> bound = add_parameters(optimizer, golden, file);
  optimizer.prepare();
  for (int step = 1; step <= golden.steps; ++step) take_step(optimizer, file, bound, step);
  std::map<std::string, Result> results;
  for (const Bound& each : bound) results[each.name] = result_of(optimizer, each);
  return results;
}

Settings settings_for(const std::string& target, Numerics numerics) {
  Settings settings;
  settings.target = target;
  settings.numerics = numerics;
  settings.threads = 2;
  return settings;
}

std::set<std::string> keys_of(const std::map<std::string, GoldenTensor>& states) {
  std::set<std::string> keys;
  for (const auto& [key, tensor] : states)
    if (key != "step") keys.insert(key);
  return keys;
}

using Parameters = std::tuple<GoldenCase, std::string, Numerics>;

class GoldenTest : public testing::TestWithParam<Parameters> {};

TEST_P(GoldenTest, AgreesWithThePeer) {
  const auto& [golden, target, numerics] = GetParam();
  SCOPED_TRACE("against " + golden.peer);
  const GoldenFile file(golden);
  ASSERT_FALSE(file.parameters().empty());
  const auto results = run(golden, file, settings_for(target, numerics));
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

std::string test_name(const testing::TestParamInfo<Parameters>& info) {
  const auto& [golden, target, numerics] = info.param;
  return golden.name + "_" + target + (numerics == Numerics::Strict ? "_strict" : "_default");
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTest,
                         testing::Combine(testing::ValuesIn(golden_cases()), testing::Values("interp", "cpu"),
                                          testing::Values(Numerics::Strict, Numerics::Default)),
                         test_name);

/// Reference case A08: a tall matrix gives the same bits as its transpose does.
TEST(GoldenTallTest, StrictTallEqualsTransposedWide) {
  const GoldenCase& golden = golden_case("a08_tall_and_wide");
  for (const std::string target : {"interp", "cpu"}) {
    SCOPED_TRACE(target);
    const auto results = run(golden, GoldenFile(golden), settings_for(target, Numerics::Strict));
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
}

/// The comparison itself must be able to fail.
TEST(GoldenToleranceTest, RefusesAnUpdateThatIsOff) {
  const GoldenCase& golden = golden_case("muon_f32_defaults");
  const GoldenFile file(golden);
  const GoldenTensor after = file.after("wide");
  const GoldenTensor before = file.before("wide");
  EXPECT_TRUE(parameter_agrees(golden, Numerics::Default, after, after, before));
  EXPECT_FALSE(parameter_agrees(golden, Numerics::Default, before, after, before));
  GoldenTensor off = after;
  for (std::size_t i = 2; i < off.bytes.size(); i += 4) off.bytes[i] ^= std::byte{1};  // 2^-7 of each value
  EXPECT_FALSE(parameter_agrees(golden, Numerics::Default, off, after, before));
  GoldenTensor not_a_number = after;
  not_a_number.bytes[2] = not_a_number.bytes[3] = std::byte{0xff};
  EXPECT_FALSE(parameter_agrees(golden, Numerics::Default, not_a_number, after, before));
}

}  // namespace
}  // namespace stepfuse::golden
