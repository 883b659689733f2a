// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/reduce_finish.h"

#include <cmath>

namespace stepfuse::runtime {

using ir::DType;
using ir::Op;

namespace {

double combine(Op op, DType math, double a, double b) {
  if (op == Op::Any) return a != 0 || b != 0 ? 1 : 0;
  if (op == Op::Amax) return std::isnan(a) || b <= a ? a : b;
  return math == DType::F64 ? a + b : static_cast<double>(static_cast<float>(a) + static_cast<float>(b));
}

}  // namespace

double finish_reduction(Op op, DType math, double* partials, int64_t count) {
  if (count == 0) return 0;
  for (; count > 1; count = (count + 1) / 2) {
    for (int64_t i = 0; i < count / 2; ++i) partials[i] = combine(op, math, partials[2 * i], partials[2 * i + 1]);
    if (count % 2 != 0) partials[count / 2] = partials[count - 1];
  }
  return op == Op::Norm ? std::sqrt(partials[0]) : partials[0];
}

}  // namespace stepfuse::runtime
