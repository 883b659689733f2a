// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/device_tensors.h"

namespace stepfuse::tools {

namespace {

Result<runtime::DeviceMemory> copy_to(runtime::Device& device, const std::vector<std::byte>& from,
                                      const std::string& what) {
  const auto bytes = static_cast<int64_t>(from.size());
  STEPFUSE_ASSIGN(runtime::DeviceMemory memory, runtime::DeviceMemory::create(device, bytes, what));
  if (bytes > 0) STEPFUSE_TRY(device.write(memory.get(), from.data(), bytes));
  return memory;
}

/// Null means "no gradient" to the optimizer; an empty gradient is one all the same.
const void* gradient_address(const RunTensor& tensor, const std::byte* data) {
  static constexpr std::byte kEmpty{};
  if (!tensor.has_gradient) return nullptr;
  return tensor.gradient.empty() ? &kEmpty : data;
}

}  // namespace

Result<DeviceTensors> DeviceTensors::bind(runtime::Optimizer& optimizer, std::vector<RunTensor>& tensors) {
  DeviceTensors out;
  runtime::Device& device = optimizer.device();
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    RunTensor& tensor = tensors[i];
    std::byte* data = tensor.data.data();
    const std::byte* gradient = tensor.gradient.data();
    if (!device.is_host()) {
      Copies& copies = out.copies_.emplace_back();
      STEPFUSE_ASSIGN(copies.data, copy_to(device, tensor.data, fmt::format("parameter '{}'", tensor.name)));
      STEPFUSE_ASSIGN(copies.gradient,
                      copy_to(device, tensor.gradient, fmt::format("the gradient of '{}'", tensor.name)));
      data = copies.data.get();
      gradient = copies.gradient.get();
    }
    STEPFUSE_TRY(optimizer.bind(i, data, gradient_address(tensor, gradient)));
  }
  return out;
}

Outcome DeviceTensors::read_back(const runtime::Optimizer& optimizer, std::vector<RunTensor>& tensors) const {
  for (size_t i = 0; i < copies_.size(); ++i)
    if (!tensors[i].data.empty())
      STEPFUSE_TRY(optimizer.device().read(tensors[i].data.data(), copies_[i].data.get(),
                                           static_cast<int64_t>(tensors[i].data.size())));
  return {};
}

Result<std::vector<std::byte>> state_bytes(const runtime::Optimizer& optimizer, const runtime::StateView& state) {
  const runtime::StridedTensor tensor{static_cast<std::byte*>(state.data), state.shape, state.strides,
                                      ir::dtype_bytes(state.dtype)};
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.dense_bytes()));
  STEPFUSE_TRY(runtime::gather_from(optimizer.device(), tensor, bytes.data()));
  return bytes;
}

}  // namespace stepfuse::tools
