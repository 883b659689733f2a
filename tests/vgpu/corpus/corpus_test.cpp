// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/cases.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::vgpu::corpus {
namespace {

const Cases& all_cases() {
  static const Cases all = [] {
    Cases joined;
    for (const auto& topic : {integer_cases,  floating_cases,    rounding_cases,       convert_cases,
                              math_cases,     double_math_cases, fast_math_cases,      half_cases,
                              bfloat_cases,   memory_cases,      shared_cases,         warp_cases,
                              group_cases,    reduction_cases,   atomic_cases,         control_cases,
                              function_cases, training_cases,    linear_algebra_cases, simulation_cases,
                              random_cases,   hash_cases,        sorting_cases,        dynamic_programming_cases}) {
      for (Case& added : topic()) joined.push_back(std::move(added));
    }
    return joined;
  }();
  return all;
}

/// The oldest architecture, the first one with clusters, the newest; and what the other front end makes of it. Each has
/// seeds of its own, so that a kernel runs on five sets of inputs in five orders.
std::vector<Target> targets() {
  return {{Compiler::Nvrtc, 75}, {Compiler::Nvrtc, 90}, {Compiler::Nvrtc, 120}, {Compiler::Nvcc, 80}};
}

std::vector<uint64_t> seeds_of(const Target& target) {
  if (target.capability == 75) return {1, 2};
  return {static_cast<uint64_t>(target.capability)};
}

/// Half of the runs look for races: those that do not may go other ways in the machine.
bool looks_for_races(uint64_t seed) { return seed == 2 || seed == 120; }

struct CorpusTest : testing::TestWithParam<std::tuple<Target, size_t>> {};

TEST_P(CorpusTest, ComputesWhatTheHostComputes) {
  const auto& [target, index] = GetParam();
  const Case& tried = all_cases()[index];
  if (target.capability < tried.min_capability) {
    GTEST_SKIP() << tried.kernel << " needs compute_" << tried.min_capability;
  }
  for (const uint64_t seed : seeds_of(target)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      Device device(tried.source, target, seed, tried.looks_for_races && looks_for_races(seed));
      tried.run(device);
      EXPECT_EQ(tried.refused, "") << "the machine knows this now";
    } catch (const PtxError& error) {
      if (tried.refused.empty()) FAIL() << error.what();
      EXPECT_THAT(error.what(), testing::HasSubstr(tried.refused));
    } catch (const Unavailable& missing) {
      GTEST_SKIP() << missing.what();
    } catch (const std::exception& error) {
      FAIL() << error.what();
    }
  }
}

std::vector<size_t> indices() {
  std::vector<size_t> numbers(all_cases().size());
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = i;
  return numbers;
}

INSTANTIATE_TEST_SUITE_P(Kernels, CorpusTest,
                         testing::Combine(testing::ValuesIn(targets()), testing::ValuesIn(indices())),
                         [](const testing::TestParamInfo<CorpusTest::ParamType>& instance) {
                           const Case& tried = all_cases()[std::get<1>(instance.param)];
                           return tried.source + "_" + tried.kernel + "_" + name(std::get<0>(instance.param));
                         });

TEST(Corpus, HasAtLeastTwoHundredKernels) {
  std::set<std::string> run, refused;
  for (const Case& tried : all_cases()) {
    (tried.refused.empty() ? run : refused).insert(tried.source + "." + tried.kernel);
  }
  EXPECT_EQ(run.size() + refused.size(), all_cases().size()) << "a kernel appears twice";
  EXPECT_GE(run.size(), 200u);
  EXPECT_LE(refused.size(), 5u) << "the machine leaves out more and more";
}

}  // namespace
}  // namespace stepfuse::vgpu::corpus
