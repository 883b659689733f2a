// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A golden case through the public C++ API, on the CPU or on a CUDA device.

#include "runtime/device.h"
#include "tests/golden/golden_cases.h"

#include <map>
#include <string>

namespace stepfuse::golden {

/// One parameter after the steps of a case.
struct GoldenResult {
  GoldenTensor parameter;
  std::map<std::string, GoldenTensor> states;
  std::int64_t steps = 0;
};

Settings settings_for(const std::string& target, Numerics numerics);

/// By parameter. Tensors lie in memory of `device`, which is of the target.
std::map<std::string, GoldenResult> run_golden(const GoldenCase& golden, const GoldenFile& file,
                                               const Settings& settings, runtime::Device& device);
/// On the host.
std::map<std::string, GoldenResult> run_golden(const GoldenCase& golden, const GoldenFile& file,
                                               const Settings& settings);

/// Expects parameters, states and step counts as the peer has them.
void expect_peers_results(const GoldenCase& golden, const GoldenFile& file, Numerics numerics,
                          const std::map<std::string, GoldenResult>& results);

/// Reference case A08: expects a tall matrix to have the same bits as its transpose, in the results of that case.
void expect_tall_equals_wide(const std::map<std::string, GoldenResult>& results);

}  // namespace stepfuse::golden
