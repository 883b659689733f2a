// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/convert.h"

#include <algorithm>

namespace stepfuse::api {

namespace {

/// No structure of ours comes near; a size beyond is memory that was never initialised.
constexpr size_t kAbsurdSize = 4096;

constexpr std::string_view kInitHint = "make it with stepfuse_{}_init()";

size_t size_at(const void* structure) {
  size_t size = 0;
  std::memcpy(&size, structure, sizeof(size));
  return size;
}

std::string init_hint(std::string_view name) { return fmt::format(fmt::runtime(kInitHint), name); }

std::string shape_text(const std::vector<int64_t>& extents) { return fmt::format("[{}]", fmt::join(extents, ", ")); }

std::string dtype_text(stepfuse_dtype dtype) {
  return fmt::format("code {}, {} bits, {} lanes", dtype.code, dtype.bits, dtype.lanes);
}

/// Strides matter only where there is a next element: not in dimensions of one, and not at all in an empty tensor.
bool same_strides(const Layout& expected, const std::vector<int64_t>& strides) {
  if (std::find(expected.shape.begin(), expected.shape.end(), 0) != expected.shape.end()) return true;
  for (size_t i = 0; i < strides.size(); ++i)
    if (expected.shape[i] != 1 && strides[i] != expected.strides[i]) return false;
  return true;
}

std::string device_text(stepfuse_device device) {
  if (device.type == STEPFUSE_DEVICE_CPU) return device.id == 0 ? "the CPU" : fmt::format("CPU {}", device.id);
  if (device.type == STEPFUSE_DEVICE_CUDA) return fmt::format("CUDA device {}", device.id);
  return fmt::format("a device of type {}", device.type);
}

Outcome check_device(stepfuse_device given, stepfuse_device expected, std::string_view what) {
  if (given.type == expected.type && given.id == expected.id) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "{} is on {}, and the optimizer runs on {}", what,
                        device_text(given), device_text(expected)),
                   "the settings 'target' and 'device' say where an optimizer's tensors lie");
}

tl::unexpected<Status> differs(std::string_view what, std::string_view field, const std::string& got,
                               const std::string& said) {
  return with_hint(fail(StatusCode::InvalidArgument, "{} has {} {}, add_parameter said {}", what, field, got, said),
                   "shape, strides and type are fixed when a parameter is added; only addresses change");
}

}  // namespace

Outcome check_struct(const void* structure, std::string_view name, size_t first, size_t known) {
  STEPFUSE_TRY(check_out_struct(structure, name, first));
  const size_t size = size_at(structure);
  const auto* bytes = static_cast<const unsigned char*>(structure);
  for (size_t i = known; i < size; ++i)
    if (bytes[i] != 0)
      return with_hint(
          fail(StatusCode::Unsupported,
               "stepfuse_{} has {} bytes and sets a field beyond the {} of this version: it was made for a "
               "newer header",
               name, size, known),
          "leave the new field zero, or use a newer library");
  return {};
}

Outcome check_out_struct(const void* structure, std::string_view name, size_t first) {
  const size_t size = size_at(structure);
  if (size >= first && size <= kAbsurdSize) return {};
  return with_hint(
      fail(StatusCode::InvalidArgument, "stepfuse_{}: struct_size {} is not legal; it has {} bytes", name, size, first),
      init_hint(name));
}

Result<ir::DType> to_ir(stepfuse_dtype dtype, std::string_view what) {
  if (dtype.lanes == 1) {
    if (dtype.code == STEPFUSE_FLOAT && dtype.bits == 32) return ir::DType::F32;
    if (dtype.code == STEPFUSE_FLOAT && dtype.bits == 64) return ir::DType::F64;
    if (dtype.code == STEPFUSE_FLOAT && dtype.bits == 16) return ir::DType::F16;
    if (dtype.code == STEPFUSE_BFLOAT && dtype.bits == 16) return ir::DType::BF16;
  }
  return with_hint(fail(StatusCode::InvalidArgument, "{}: unknown element type ({})", what, dtype_text(dtype)),
                   "use stepfuse_f32(), stepfuse_bf16(), stepfuse_f16() or stepfuse_f64()");
}

stepfuse_dtype from_ir(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F32:
      return stepfuse_f32();
    case ir::DType::BF16:
      return stepfuse_bf16();
    case ir::DType::F16:
      return stepfuse_f16();
    case ir::DType::F64:
      return stepfuse_f64();
    case ir::DType::Bool:
      break;
  }
  throw InternalError("a state of bool elements");
}

Result<ir::OptionList> to_options(const stepfuse_option* options, size_t count, std::string_view name) {
  ir::OptionList list;
  if (options == nullptr && count > 0)
    return with_hint(fail(StatusCode::InvalidArgument, "{} is null, and its count is {}", name, count),
                     "give the array, or a count of 0");
  for (size_t i = 0; i < count; ++i) {
    if (options[i].key == nullptr || options[i].value == nullptr)
      return with_hint(fail(StatusCode::InvalidArgument, "{}[{}] has a null {}", name, i,
                            options[i].key == nullptr ? "key" : "value"),
                       "write values as text, such as \"0.9,0.95\" or \"false\"");
    list.emplace_back(options[i].key, options[i].value);
  }
  return list;
}

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  uint64_t stride = 1;  // a shape that is too large wraps here, and is refused by add_parameter
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(std::max<int64_t>(shape[i], 1));
  }
  return strides;
}

Layout make_layout(std::vector<int64_t> shape, const int64_t* strides, ir::DType dtype) {
  Layout layout{std::move(shape), {}, dtype};
  layout.strides =
      strides == nullptr ? row_major(layout.shape) : std::vector<int64_t>(strides, strides + layout.shape.size());
  return layout;
}

stepfuse_device device_of(const runtime::Device& device) {
  return {device.is_host() ? STEPFUSE_DEVICE_CPU : STEPFUSE_DEVICE_CUDA, device.ordinal()};
}

Result<void*> address_of(const stepfuse_tensor& tensor, const Layout& expected, stepfuse_device device,
                         std::string_view what) {
  STEPFUSE_TRY(check_device(tensor.device, device, what));
  STEPFUSE_ASSIGN(const ir::DType dtype, to_ir(tensor.dtype, what));
  if (dtype != expected.dtype)
    return differs(what, "the type", std::string(ir::dtype_name(dtype)), std::string(ir::dtype_name(expected.dtype)));
  if (tensor.ndim < 0 || static_cast<size_t>(tensor.ndim) != expected.shape.size())
    return differs(what, "ndim", std::to_string(tensor.ndim), std::to_string(expected.shape.size()));
  if (tensor.shape == nullptr && tensor.ndim > 0)
    return with_hint(fail(StatusCode::InvalidArgument, "{} has a null shape", what),
                     "give `ndim` extents, in elements");
  std::vector<int64_t> shape;
  if (tensor.ndim > 0) shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  if (shape != expected.shape) return differs(what, "shape", shape_text(shape), shape_text(expected.shape));
  const Layout given = make_layout(std::move(shape), tensor.strides, dtype);
  if (!same_strides(expected, given.strides))
    return differs(what, "strides", shape_text(given.strides), shape_text(expected.strides));
  return tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

}  // namespace stepfuse::api
