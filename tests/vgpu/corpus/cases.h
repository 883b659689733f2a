// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/corpus/device.h"

#include <functional>
#include <string>
#include <vector>

namespace stepfuse::vgpu::corpus {

/// One kernel with inputs and a check of what it makes of them. `run` uses GoogleTest's EXPECT macros.
struct Case {
  std::string source;  // tests/vgpu/corpus/SOURCE.cu
  std::string kernel;
  std::function<void(Device&)> run;
  int min_capability = 0;       // what the source needs
  bool looks_for_races = true;  // false where threads meet without a barrier, as the kernel intends
  /// Part of what the machine says when it refuses the source, aloud, for what it leaves out. `run` is for the day when
  /// it does not.
  std::string refused = {};
};

using Cases = std::vector<Case>;

// One function per topic; corpus_test.cpp joins them.
Cases integer_cases();
Cases floating_cases();
Cases rounding_cases();
Cases convert_cases();
Cases math_cases();
Cases double_math_cases();
Cases fast_math_cases();
Cases half_cases();
Cases bfloat_cases();
Cases memory_cases();
Cases shared_cases();
Cases warp_cases();
Cases group_cases();
Cases reduction_cases();
Cases atomic_cases();
Cases control_cases();
Cases function_cases();
Cases training_cases();
Cases linear_algebra_cases();
Cases simulation_cases();
Cases random_cases();
Cases hash_cases();
Cases sorting_cases();
Cases dynamic_programming_cases();

}  // namespace stepfuse::vgpu::corpus
