// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Every golden case through the public C++ API, on both targets and in both numerics modes.
#include "tests/golden/golden_run.h"

#include <tuple>

#include <gtest/gtest.h>

namespace stepfuse::golden {
namespace {

using Parameters = std::tuple<GoldenCase, std::string, Numerics>;

class GoldenTest : public testing::TestWithParam<Parameters> {};

TEST_P(GoldenTest, AgreesWithThePeer) {
  const auto& [golden, target, numerics] = GetParam();
  const GoldenFile file(golden);
  expect_peers_results(golden, file, numerics, run_golden(golden, file, settings_for(target, numerics)));
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
    expect_tall_equals_wide(run_golden(golden, GoldenFile(golden), settings_for(target, Numerics::Strict)));
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
