// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/optimizer.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace stepfuse::tests {

/// Raw elements of one tensor.
using Bytes = std::vector<std::byte>;

struct RunSettings {
  ir::Mode mode = ir::Mode::Strict;
  std::string target = "cpu";
  int threads = 2;
  std::vector<std::string> disabled;
  int steps = 1;
};

/// One parameter through a rule: its elements and states after the steps.
struct RunResult {
  Bytes param;
  std::vector<Bytes> states;
  compiler::LaunchCounts launched;  // by the last step
  compiler::PlanCounts planned;
};

Result<RunResult> run_rule(const std::string& rule, const ir::OptionList& options, const ir::ParameterSpec& spec,
                           const Bytes& param, const Bytes& grad, const RunSettings& settings);

/// Standard normal numbers in the given type, the same for one seed everywhere.
Bytes random_tensor(ir::DType dtype, int64_t count, uint64_t seed, double scale = 1);
Bytes from_doubles(ir::DType dtype, const std::vector<double>& values);
std::vector<double> to_doubles(ir::DType dtype, const Bytes& bytes);

/// Bit for bit, any NaN like any other; empty if equal, else the first difference.
std::string difference(ir::DType dtype, const Bytes& a, const Bytes& b);

}  // namespace stepfuse::tests
