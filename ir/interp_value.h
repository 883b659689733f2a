// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"
#include "ir/interpreter.h"

#include <array>
#include <variant>
#include <vector>

namespace stepfuse::ir {

/// Extents aligned at the last dimension; missing ones are 1.
using Dims3 = std::array<int64_t, 3>;

inline int64_t elements_of(const Dims3& dims) { return dims[0] * dims[1] * dims[2]; }

/// A value while the interpreter runs: floats where they hold every value of its element type and the evaluation rounds
/// to it, doubles otherwise. A scalar is one double.
struct Array {
  DType dtype = DType::F64;
  uint8_t rank = 0;
  Dims3 dims{1, 1, 1};
  std::variant<std::vector<float>, std::vector<double>> data;

  size_t size() const {
    return std::visit([](const auto& elements) { return elements.size(); }, data);
  }
};

/// One op's operands and result, as the evaluators need them.
struct OpCall {
  const Node& node;
  DType math = DType::F32;  // F64 in exact evaluation
  std::vector<const Array*> args;
  Array result;  // element type, rank and extents are set
};

/// Elements as T: in place where the array holds T, else a copy.
template <class T>
class Elements {
 public:
  explicit Elements(const Array& array) {
    if (const auto* same = std::get_if<std::vector<T>>(&array.data)) {
      data_ = same->data();
      return;
    }
    std::visit([&](const auto& other) { copy_.assign(other.begin(), other.end()); }, array.data);
    data_ = copy_.data();
  }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  const T* data() const { return data_; }
  T operator[](size_t i) const { return data_[i]; }

 private:
  const T* data_ = nullptr;
  std::vector<T> copy_;
};

/// Rounds once to `dtype` and chooses the storage. In exact evaluation nothing is rounded.
void store(Array& result, std::vector<float>&& values, Evaluation evaluation);
void store(Array& result, std::vector<double>&& values, Evaluation evaluation);

/// `value` rounded once to `dtype`.
double round_to(DType dtype, double value);

// One evaluator per op family.
void run_elementwise(OpCall& call, Evaluation evaluation);
void run_reduce(OpCall& call, Evaluation evaluation);
void run_move(OpCall& call, Evaluation evaluation);  // transpose, slice, concat, adddiag
void run_matmul(OpCall& call, Evaluation evaluation);
double run_scalar(Op op, const std::array<double, kMaxOperands>& operands);

}  // namespace stepfuse::ir
