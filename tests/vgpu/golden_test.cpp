// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Every golden case on a CUDA device, in both numerics modes. On the virtual GPU each is run in several orders, with
// memory that holds poison until somebody writes it.
#include "runtime/cuda_backend.h"
#include "tests/golden/cli_golden_run.h"
#include "tests/golden/golden_run.h"
#include "tests/vgpu/control.h"

#include <tuple>

#include <gtest/gtest.h>

namespace stepfuse::golden {
namespace {

constexpr std::uint64_t kOrders = 20;

using Parameters = std::tuple<GoldenCase, Numerics>;

class CudaGoldenTest : public testing::TestWithParam<Parameters> {
 protected:
  void SetUp() override {
    const std::string why_not = tests::why_no_device();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    device_ = runtime::open_cuda_device(0, *context_).value();
  }
  void TearDown() override {
    if (tests::virtual_driver() == nullptr || device_ == nullptr) return;
    VgpuCounters counters{};
    tests::virtual_driver()->counters(&counters);
    EXPECT_EQ(counters.faults + counters.unknown, 0U) << tests::virtual_driver()->last_fault();
  }

  std::shared_ptr<const runtime::Context> context_ = runtime::Context::of_environment().value();
  std::unique_ptr<runtime::Device> device_;
};

TEST_P(CudaGoldenTest, AgreesWithThePeerInEveryOrder) {
  const auto& [golden, numerics] = GetParam();
  const GoldenFile file(golden);
  const Settings settings = settings_for("cuda", numerics);
  const tests::VirtualDriver* driver = tests::virtual_driver();
  for (std::uint64_t seed = 0; seed < (driver != nullptr ? kOrders : 1) && !HasFailure(); ++seed) {
    SCOPED_TRACE("order " + std::to_string(seed));
    if (driver != nullptr) driver->set_seed(seed);
    const auto results = run_golden(golden, file, settings, *device_);
    expect_peers_results(golden, file, numerics, results);
    if (golden.name == "a08_tall_and_wide" && numerics == Numerics::Strict) expect_tall_equals_wide(results);
  }
}

std::string test_name(const testing::TestParamInfo<Parameters>& info) {
  const auto& [golden, numerics] = info.param;
  return golden.name + (numerics == Numerics::Strict ? "_strict" : "_default");
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaGoldenTest,
                         testing::Combine(testing::ValuesIn(golden_cases()),
                                          testing::Values(Numerics::Strict, Numerics::Default)),
                         test_name);

/// `stepfuse run` copies tensors to the device and back.
class CudaCommandGoldenTest : public testing::TestWithParam<std::tuple<std::string, Numerics>> {};

TEST_P(CudaCommandGoldenTest, AgreesWithThePeer) {
  const std::string why_not = tests::why_no_device();
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  const auto& [name, numerics] = GetParam();
  expect_command_agrees(name, "cuda", numerics);
}

std::string command_test_name(const testing::TestParamInfo<std::tuple<std::string, Numerics>>& info) {
  const auto& [name, numerics] = info.param;
  return name + (numerics == Numerics::Strict ? "_strict" : "_default");
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaCommandGoldenTest,
                         testing::Combine(testing::ValuesIn(command_cases()),
                                          testing::Values(Numerics::Strict, Numerics::Default)),
                         command_test_name);

}  // namespace
}  // namespace stepfuse::golden
