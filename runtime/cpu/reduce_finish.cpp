// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/reduce_finish.h"

#include "ir/support/float16.h"
#include "ir/support/status.h"

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

void store_element(void* data, DType dtype, int64_t index, double value) {
  switch (dtype) {
    case DType::F64:
      static_cast<double*>(data)[index] = value;
      return;
    case DType::F32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
      return;
    case DType::F16:
      static_cast<uint16_t*>(data)[index] = f16_from_f64(value);
      return;
    case DType::BF16:
      static_cast<uint16_t*>(data)[index] = bf16_from_f64(value);
      return;
    case DType::Bool:
      static_cast<uint8_t*>(data)[index] = value != 0 ? 1 : 0;
      return;
  }
}

double load_element(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::F64:
      return static_cast<const double*>(data)[index];
    case DType::F32:
      return static_cast<double>(static_cast<const float*>(data)[index]);
    case DType::F16:
      return static_cast<double>(f16_to_f32(static_cast<const uint16_t*>(data)[index]));
    case DType::BF16:
      return static_cast<double>(bf16_to_f32(static_cast<const uint16_t*>(data)[index]));
    case DType::Bool:
      return static_cast<const uint8_t*>(data)[index] != 0 ? 1 : 0;
  }
  throw InternalError("unknown element type");
}

}  // namespace stepfuse::runtime
