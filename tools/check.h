// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/optimizer.h"
#include "tools/console.h"
#include "tools/state_io.h"

#include <string>
#include <vector>

namespace stepfuse::tools {

/// One tensor of two runs.
struct Comparison {
  std::string name;
  ir::DType dtype;
  size_t bytes;
  const void* ours;
  const void* reference;
  const void* before;  // of the first step; null for states, which have the size of the reference itself
};

struct Verdict {
  double error = 0;    // |ours - reference|, the Euclidean norm
  double allowed = 0;  // 0 asks for equal bits
  bool ok = false;
};

/// Strict runs must be equal bit for bit, NaN equal to NaN. Otherwise
///   |ours - reference| <= tolerance * |reference - before| + 4 u sqrt(steps) |reference|
/// and equal infinities and NaNs. The first term bounds the error of the update, the second the rounding of what is
/// stored.
Verdict compare(const Comparison& tensors, bool bitwise, double tolerance, int64_t steps);

/// The tolerance of a rule's updates against f64: of elementwise rules, and of those with products in f32 or 16 bits.
double update_tolerance(const ir::Graph& rule);

/// Compares all parameters and states of a run with the same steps on the interpreter, a line for each on the console.
/// Fails if one is out of tolerance. `before` holds the parameters as they were.
Outcome check_against(const runtime::Optimizer& ours, const std::vector<RunTensor>& tensors,
                      const runtime::Optimizer& interpreter, const std::vector<RunTensor>& reference,
                      const std::vector<RunTensor>& before, bool bitwise, int64_t steps, const Console& console);

}  // namespace stepfuse::tools
