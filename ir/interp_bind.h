// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/interp_value.h"

#include <optional>
#include <string>
#include <vector>

namespace stepfuse::ir {

/// A recipe's inputs as arrays, and the extents that the tensors give its symbols.
class BoundInputs {
 public:
  /// Fails if a tensor or scalar is missing, unknown, of another type or out of range, or if two disagree on a symbol.
  static Result<BoundInputs> bind(const Graph& graph, const Bindings& bindings, Evaluation evaluation);

  Array take(uint32_t input) { return std::move(arrays_[input]); }
  Dims3 dims_of(const Shape& shape) const;

 private:
  BoundInputs(const Graph& graph, const Bindings& bindings, Evaluation evaluation)
      : graph_(graph),
        bindings_(bindings),
        evaluation_(evaluation),
        extents_(graph.symbols().size()),
        bound_by_(graph.symbols().size()) {}

  Outcome check_names() const;
  Outcome bind_extents(const Input& input, const Tensor& tensor);
  Outcome check_tensor(const Input& input, const Tensor& tensor) const;
  Result<Array> bound_tensor(const Input& input) const;
  Result<Array> bound_scalar(const Input& input) const;

  const Graph& graph_;
  const Bindings& bindings_;
  Evaluation evaluation_;
  std::vector<std::optional<int64_t>> extents_;  // by symbol
  std::vector<std::string> bound_by_;            // by symbol: the first input that has it
  std::vector<Array> arrays_;                    // by input
};

}  // namespace stepfuse::ir
