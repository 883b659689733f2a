// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/interp_value.h"

#include "ir/support/float16.h"

#include <cmath>

namespace stepfuse::ir {

namespace {

/// f32 results, to a type no wider than f32.
void round_floats(DType dtype, std::vector<float>& values) {
  if (dtype == DType::BF16)
    for (float& value : values) value = bf16_to_f32(bf16_from_f32(value));
  if (dtype == DType::F16)
    for (float& value : values) value = f16_to_f32(f16_from_f32(value));
}

}  // namespace

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::F64:
      return value;
    case DType::F32:
      return static_cast<double>(static_cast<float>(value));
    case DType::F16:
      return static_cast<double>(f16_to_f32(f16_from_f64(value)));
    case DType::BF16:
      return static_cast<double>(bf16_to_f32(bf16_from_f64(value)));
    case DType::Bool:
      return value != 0 ? 1 : 0;
  }
  return value;
}

void store(Array& result, std::vector<float>&& values, Evaluation evaluation) {
  STEPFUSE_CHECK(evaluation == Evaluation::Typed && result.dtype != DType::F64, "f32 arithmetic for an f64 result");
  round_floats(result.dtype, values);
  result.data = std::move(values);
}

void store(Array& result, std::vector<double>&& values, Evaluation evaluation) {
  if (evaluation == Evaluation::Exact || result.dtype == DType::F64) {
    result.data = std::move(values);
    return;
  }
  std::vector<float> narrow(values.size());
  for (size_t i = 0; i < values.size(); ++i) narrow[i] = static_cast<float>(round_to(result.dtype, values[i]));
  result.data = std::move(narrow);
}

}  // namespace stepfuse::ir
