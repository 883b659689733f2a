// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Optimizers share the kernels, the product libraries and the compiler plugin of their process.
#include "tests/stress/small_model.h"

#include <thread>

#include <gtest/gtest.h>

namespace stepfuse::tests {
namespace {

struct Outcomes {
  std::vector<float> parameters;
  std::string error;
};

/// Made, prepared, stepped and destroyed by the calling thread.
Outcomes train(Numerics numerics, int threads, int steps) {
  try {
    Settings settings;
    settings.numerics = numerics;
    settings.threads = threads;
    SmallModel model(settings);
    for (int step = 0; step < steps; ++step) model.scheduled_step(step);
    return {model.parameters(), {}};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

TEST(ConcurrentOptimizers, StepAtTheSameTimeWithTheResultsOfOne) {
  constexpr int kSteps = 30;
  for (const Numerics numerics : {Numerics::Default, Numerics::Strict}) {
    std::vector<Outcomes> both(2);
    {
      std::vector<std::jthread> trainers;
      for (size_t i = 0; i < both.size(); ++i)
        trainers.emplace_back([&both, i, numerics] { both[i] = train(numerics, 2, kSteps); });
    }
    const Outcomes alone = train(numerics, 3, kSteps);
    ASSERT_EQ(alone.error, "");
    for (const Outcomes& one : both) {
      EXPECT_EQ(one.error, "");
      EXPECT_EQ(one.parameters, alone.parameters);
    }
  }
}

}  // namespace
}  // namespace stepfuse::tests
