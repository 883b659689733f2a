// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// A few golden cases through `stepfuse run`, safetensors to safetensors.
#include "tests/golden/cli_golden_run.h"

#include <tuple>

#include <gtest/gtest.h>

namespace stepfuse::golden {
namespace {

using Parameters = std::tuple<std::string, std::string, Numerics>;

class CliGoldenTest : public testing::TestWithParam<Parameters> {};

TEST_P(CliGoldenTest, AgreesWithThePeer) {
  const auto& [name, target, numerics] = GetParam();
  expect_command_agrees(name, target, numerics);
}

std::string test_name(const testing::TestParamInfo<Parameters>& info) {
  const auto& [name, target, numerics] = info.param;
  return name + "_" + target + (numerics == Numerics::Strict ? "_strict" : "_default");
}

INSTANTIATE_TEST_SUITE_P(Cases, CliGoldenTest,
                         testing::Combine(testing::ValuesIn(command_cases()), testing::Values("interp", "cpu"),
                                          testing::Values(Numerics::Strict, Numerics::Default)),
                         test_name);

}  // namespace
}  // namespace stepfuse::golden
