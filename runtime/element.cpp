// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/element.h"

#include "ir/support/float16.h"
#include "ir/support/status.h"

namespace stepfuse::runtime {

using ir::DType;

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
