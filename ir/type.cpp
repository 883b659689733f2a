// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/type.h"

#include <algorithm>

namespace stepfuse::ir {

namespace {
struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<DTypeInfo, 5> kDTypes{{{DType::F64, "f64", 8},
                                            {DType::F32, "f32", 4},
                                            {DType::F16, "f16", 2},
                                            {DType::BF16, "bf16", 2},
                                            {DType::Bool, "bool", 1}}};
}  // namespace

std::string_view dtype_name(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

int64_t dtype_bytes(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].bytes; }

std::optional<DType> parse_dtype(std::string_view text) {
  const auto* it = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeInfo& i) { return i.name == text; });
  return it == kDTypes.end() ? std::nullopt : std::optional(it->dtype);
}

DType math_dtype(DType dtype) { return dtype == DType::F64 ? DType::F64 : DType::F32; }

Shape make_shape(std::initializer_list<Extent> dims) {
  Shape shape;
  for (Extent d : dims) shape.dims[shape.rank++] = d;
  return shape;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape out;
  out.rank = std::max(a.rank, b.rank);
  for (int i = 0; i < out.rank; ++i) {
    const Extent x = a.from_end(i);
    const Extent y = b.from_end(i);
    if (x != y && x != Extent::of(1) && y != Extent::of(1)) return std::nullopt;
    out.dims[static_cast<size_t>(out.rank - 1 - i)] = x == Extent::of(1) ? y : x;
  }
  return out;
}

}  // namespace stepfuse::ir
