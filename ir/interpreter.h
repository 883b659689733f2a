// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace stepfuse::ir {

/// Row-major. Every element is exactly representable in `dtype`; bool is 0 or 1.
struct Tensor {
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  std::vector<double> data;
};

/// Exact: every op in f64, nothing rounded in between, outputs rounded once to their declared element type.
/// Typed: every op computed and rounded exactly as ops.def defines it; the oracle for strict mode.
enum class Evaluation : uint8_t { Exact, Typed };

/// What a recipe's inputs are bound to, by input name.
struct Bindings {
  std::map<std::string, Tensor> tensors;  // a fresh state may be missing: it is zero
  std::map<std::string, double> scalars;  // hyperparameters; missing ones take their default
  int64_t step = 1;
  std::set<std::string> fresh;  // states that no completed step has written yet
};

/// Runs the recipe once. The result holds the new contents of each replaced input, by its name.
Result<std::map<std::string, Tensor>> interpret(const Graph& graph, const Bindings& bindings, Evaluation evaluation);

/// Every value of the graph, by ValueId; scalars as f64 tensors of rank 0.
Result<std::vector<Tensor>> interpret_all(const Graph& graph, const Bindings& bindings, Evaluation evaluation);

}  // namespace stepfuse::ir
