// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/adamw_bounds.h"

#include "runtime/optimizer.h"
#include "tests/e2e/optimizer_run.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

namespace stepfuse::tests {

namespace {

constexpr size_t kElements = 100'000;
constexpr int64_t kBytes = int64_t{kElements} * 4;
constexpr double kStep = 5;  // the step that is compared, with states as if four had been taken

void check(const Outcome& outcome) {
  if (!outcome) throw std::runtime_error(outcome.error().message);
}

/// The distance from |x| to the next f32.
double ulp(double x) {
  const auto f = static_cast<float>(std::abs(x));
  return static_cast<double>(std::nextafter(f, INFINITY)) - static_cast<double>(f);
}

void expect_within(float actual, float expected, double bound, const char* what, size_t i) {
  ASSERT_LE(std::abs(static_cast<double>(actual) - static_cast<double>(expected)), bound)
      << what << "[" << i << "]: " << actual << " against " << expected;
}

}  // namespace

AdamWData random_adamw() {
  const auto floats = [](uint64_t seed) {
    const auto doubles = to_doubles(ir::DType::F32, random_tensor(ir::DType::F32, kElements, seed));
    return std::vector<float>(doubles.begin(), doubles.end());
  };
  AdamWData data{floats(1), floats(2), floats(3), floats(4)};
  for (float& value : data.v) value = std::abs(value);
  return data;
}

AdamWData adamw_step(AdamWData data, const std::string& target, ir::Mode mode,
                     const std::vector<std::string>& disabled) {
  runtime::OptimizerSettings settings;
  settings.target = target;
  settings.mode = mode;
  settings.threads = 2;
  settings.runner.disabled = disabled;
  auto optimizer = std::move(runtime::Optimizer::create(settings).value());
  const uint32_t group = optimizer.add_group("adamw", {{"lr", "0.1"}, {"weight_decay", "0.1"}}).value();
  optimizer.add_parameter(group, "w", {{kElements}}).value();
  check(optimizer.prepare());
  runtime::Device& device = optimizer.device();
  const auto p = runtime::DeviceMemory::create(device, kBytes, "a test").value();
  const auto g = runtime::DeviceMemory::create(device, kBytes, "a test").value();
  check(optimizer.bind(0, p.get(), g.get()));
  const auto states = optimizer.states(0).value();
  const std::pair<void*, std::vector<float>*> tensors[] = {
      {p.get(), &data.p}, {g.get(), &data.g}, {states.at(0).data, &data.m}, {states.at(1).data, &data.v}};
  for (const auto& [memory, values] : tensors) check(device.write(memory, values->data(), kBytes));
  optimizer.set_steps(0, static_cast<int64_t>(kStep) - 1);
  optimizer.mark_states_present(0);
  check(optimizer.step());
  for (const auto& [memory, values] : tensors) check(device.read(values->data(), memory, kBytes));
  return data;
}

void expect_within_two_ulp(const AdamWData& before, const AdamWData& fast, const AdamWData& typed) {
  const double step_size = 0.1 / (1 - std::pow(0.9, kStep));
  const double correction = std::sqrt(1 - std::pow(0.999, kStep));
  for (size_t i = 0; i < kElements; ++i) {
    const double m_bound = 2 * ulp(std::max({std::abs(before.m[i]), std::abs(before.g[i]), std::abs(typed.m[i])}));
    expect_within(fast.m[i], typed.m[i], m_bound, "m", i);
    const double v_bound = 2 * (ulp(before.v[i]) + ulp(typed.v[i]));
    expect_within(fast.v[i], typed.v[i], v_bound, "v", i);
    const double denominator = std::sqrt(static_cast<double>(typed.v[i])) / correction + 1e-8;
    const double term = step_size * static_cast<double>(typed.m[i]) / denominator;
    const double relative = v_bound / static_cast<double>(typed.v[i]) / 2 + 5 * 2 * 0x1p-23;
    const double term_bound = m_bound * step_size / denominator + std::abs(term) * relative;
    const double largest = std::max({std::abs(static_cast<double>(before.p[i])), std::abs(term)});
    expect_within(fast.p[i], typed.p[i], term_bound + 2 * 2 * ulp(largest), "p", i);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace stepfuse::tests
