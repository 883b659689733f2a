// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What a training run of many steps must not do: allocate, grow, compile.
#include "runtime/kernel_cache.h"
#include "tests/stress/allocation_watch.h"
#include "tests/stress/small_model.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include <gtest/gtest.h>
#include <unistd.h>

namespace stepfuse::tests {
namespace {

/// Resident memory of this process.
int64_t resident_bytes() {
  long total = 0, resident = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "r"), std::fclose);
  if (file == nullptr || std::fscanf(file.get(), "%ld %ld", &total, &resident) != 2) return -1;
  return int64_t{resident} * sysconf(_SC_PAGESIZE);
}

Settings settings_of(Numerics numerics, bool batched) {
  Settings settings;
  settings.numerics = numerics;
  settings.threads = 3;
  if (!batched) settings.disabled_passes = {"batch", "horizontal"};
  return settings;
}

struct SteadyCase {
  const char* name;
  Numerics numerics;
  bool batched;
};

class SteadyOptimizer : public testing::TestWithParam<SteadyCase> {
 protected:
  Settings settings() const { return settings_of(GetParam().numerics, GetParam().batched); }
};

INSTANTIATE_TEST_SUITE_P(All, SteadyOptimizer,
                         testing::Values(SteadyCase{"DefaultBatched", Numerics::Default, true},
                                         SteadyCase{"DefaultUnbatched", Numerics::Default, false},
                                         SteadyCase{"StrictBatched", Numerics::Strict, true},
                                         SteadyCase{"StrictUnbatched", Numerics::Strict, false}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(SteadyOptimizer, StepsAllocateNothingOfOurs) {
  if (!can_watch_allocations()) GTEST_SKIP() << "a sanitizer has replaced malloc";
  constexpr int kWarmUp = 3, kSteps = 200;
  SmallModel model(settings());
  for (int step = 0; step < kWarmUp; ++step) model.scheduled_step(step);
  const AllocationWatch watch;
  for (int step = kWarmUp; step < kWarmUp + kSteps; ++step) model.scheduled_step(step);
  EXPECT_EQ(watch.ours(), 0) << "the first one:\n" << watch.first_of_ours();
  for (const auto& [object, count] : watch.of_libraries()) {
    std::printf("%s: %.1f allocations per step\n", object.c_str(), static_cast<double>(count) / kSteps);
    RecordProperty(object.substr(object.rfind('/') + 1), static_cast<int>(count));
  }
}

TEST_P(SteadyOptimizer, ResidentMemoryDoesNotGrow) {
  constexpr int64_t kTolerance = int64_t{1} << 20;
  if (!can_watch_allocations()) GTEST_SKIP() << "a sanitizer keeps freed memory";
  SmallModel model(settings());
  for (int step = 0; step < 50; ++step) model.scheduled_step(step);
  const int64_t before = resident_bytes();
  ASSERT_GT(before, 0);
  for (int step = 50; step < 200; ++step) model.scheduled_step(step);
  EXPECT_LE(resident_bytes() - before, kTolerance);
}

/// I01: 1000 steps with another lr, weight_decay, beta1 and momentum each.
TEST_P(SteadyOptimizer, NewHyperparametersCompileNothing) {
  SmallModel model(settings());
  model.scheduled_step(0);
  const int64_t compiled = runtime::KernelCache::compiled_in_process();
  EXPECT_GT(compiled, 0);
  for (int step = 1; step < 1000; ++step) model.scheduled_step(step);
  EXPECT_EQ(runtime::KernelCache::compiled_in_process(), compiled);
}

/// I02: an optimizer that goes takes everything with it, its code too.
TEST(OptimizerLife, TwoHundredCyclesLeaveNothing) {
  constexpr int64_t kTolerance = int64_t{1} << 20;
  if (!can_watch_allocations()) GTEST_SKIP() << "a sanitizer keeps freed memory";
  const auto live_once = [](int step) { SmallModel(settings_of(Numerics::Default, true)).scheduled_step(step); };
  for (int cycle = 0; cycle < 50; ++cycle) live_once(cycle);
  const int64_t before = resident_bytes();
  ASSERT_GT(before, 0);
  for (int cycle = 50; cycle < 250; ++cycle) live_once(cycle);
  EXPECT_LE(resident_bytes() - before, kTolerance);
}

[[gnu::noinline]] void* allocate_from_here(size_t bytes) { return std::malloc(bytes); }

/// The watch itself must be able to fail the tests above.
TEST(AllocationWatch, SeesOurAllocations) {
  if (!can_watch_allocations()) GTEST_SKIP() << "a sanitizer has replaced malloc";
  const AllocationWatch watch;
  void* volatile block = allocate_from_here(100);
  auto* volatile number = new int(1);
  std::free(block);
  delete number;
  EXPECT_EQ(watch.ours(), 2) << watch.first_of_ours();
}

}  // namespace
}  // namespace stepfuse::tests
