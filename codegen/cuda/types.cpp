// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/types.h"

#include <bit>
#include <cmath>

namespace stepfuse::codegen {

using ir::DType;

std::string_view cuda_memory_type(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return "double";
    case DType::F32:
      return "float";
    case DType::F16:
      return "f16";
    case DType::BF16:
      return "bf16";
    case DType::Bool:
      return "unsigned char";
  }
  throw_internal(__FILE__, __LINE__, "unknown dtype");
}

std::string_view cuda_value_type(DType dtype) {
  if (dtype == DType::Bool) return "bool";
  return dtype == DType::F64 ? "double" : "float";
}

std::string Arithmetic::infix(std::string_view intrinsic, char symbol, std::string_view a, std::string_view b) const {
  if (!strict_) return fmt::format("{} {} {}", a, symbol, b);
  return fmt::format("__{}{}_rn({}, {})", f64_ ? 'd' : 'f', intrinsic, a, b);
}

std::string Arithmetic::sqrt(std::string_view a) const {
  if (!strict_) return fmt::format("{}({})", f64_ ? "sqrt" : "sqrtf", a);
  return fmt::format("{}({})", f64_ ? "__dsqrt_rn" : "__fsqrt_rn", a);
}

std::string Arithmetic::literal(double value) const {
  const double rounded = f64_ ? value : static_cast<double>(static_cast<float>(value));
  if (!std::isfinite(rounded)) {
    if (f64_) return fmt::format("__longlong_as_double(0x{:016x}ll)", std::bit_cast<uint64_t>(rounded));
    return fmt::format("__int_as_float(0x{:08x})", std::bit_cast<uint32_t>(static_cast<float>(rounded)));
  }
  const char* suffix = f64_ ? "" : "f";
  // Short decimals are exact as they stand; the rest is written in binary, with a decimal for people.
  if (rounded * 64 == std::trunc(rounded * 64) && std::fabs(rounded) < 1e6) {
    const std::string text = fmt::format("{}", rounded);
    return text + (text.find('.') == std::string::npos ? ".0" : "") + suffix;
  }
  return fmt::format("{:a}{} /* {} */", rounded, suffix, value);
}

}  // namespace stepfuse::codegen
