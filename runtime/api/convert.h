// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Between the plain structures of stepfuse.h and the types of the layers below, with every check that a structure from
// outside needs.
#pragma once

#include "ir/optimizers/recipe.h"
#include "ir/type.h"
#include "runtime/api/reply.h"
#include "runtime/device.h"
#include "runtime/optimizer.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::api {

/// Bytes of a structure in version 1 of the interface, the least that is accepted. Specialise it when T grows.
template <class T>
inline constexpr size_t kFirstSize = sizeof(T);

template <>
inline constexpr size_t kFirstSize<stepfuse_context_options> = offsetof(stepfuse_context_options, device_allocate);

/// Checks `given` bytes at `structure` against the `known` ones: large enough, and zero beyond what is known.
Outcome check_struct(const void* structure, std::string_view name, size_t first, size_t known);
/// The same for a structure that is written: it may be of any size from the first on.
Outcome check_out_struct(const void* structure, std::string_view name, size_t first);

/// A structure of the caller's size as this version knows it: fields the caller does not have are zero.
template <class T>
Result<T> read_struct(const T* given, std::string_view name) {
  T out{};
  if (given == nullptr) return out;
  STEPFUSE_TRY(check_struct(given, name, kFirstSize<T>, sizeof(T)));
  std::memcpy(&out, given, std::min(given->struct_size, sizeof(T)));
  return out;
}

/// Writes `value` into the caller's structure, as much of it as the caller knows, and zero beyond.
template <class T>
void write_struct(T* out, T value) {
  const size_t size = value.struct_size = out->struct_size;
  std::memcpy(out, &value, std::min(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(reinterpret_cast<std::byte*>(out) + sizeof(T), 0, size - sizeof(T));
}

/// `what`: "parameter 'w'", for the message.
Result<ir::DType> to_ir(stepfuse_dtype dtype, std::string_view what);
stepfuse_dtype from_ir(ir::DType dtype);
inline bool is_unset(stepfuse_dtype dtype) { return dtype.code == 0 && dtype.bits == 0 && dtype.lanes == 0; }

/// Keys and values of an array that may be null only if it is empty; null texts are refused with their index.
Result<ir::OptionList> to_options(const stepfuse_option* options, size_t count, std::string_view name);

std::vector<int64_t> row_major(const std::vector<int64_t>& shape);

/// How a tensor lies in memory.
struct Layout {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // as many as the shape has extents
  ir::DType dtype = ir::DType::F32;
};
/// `strides` may be null.
Layout make_layout(std::vector<int64_t> shape, const int64_t* strides, ir::DType dtype);

stepfuse_device device_of(const runtime::Device& device);

/// The address of the first element of a tensor that lies as `expected` says, on that device; else an error that says
/// both.
Result<void*> address_of(const stepfuse_tensor& tensor, const Layout& expected, stepfuse_device device,
                         std::string_view what);

}  // namespace stepfuse::api
