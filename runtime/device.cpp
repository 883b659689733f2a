// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include "runtime/aligned_memory.h"

#include <cstring>
#include <vector>

namespace stepfuse::runtime {

namespace {

class HostDevice final : public Device {
 public:
  explicit HostDevice(const Allocator& allocator) : allocator_(allocator) {}

  bool is_host() const override { return true; }
  int ordinal() const override { return 0; }
  void* stream() const override { return nullptr; }

  Result<void*> allocate(int64_t bytes, std::string_view what) override {
    STEPFUSE_ASSIGN(AlignedMemory memory, AlignedMemory::create(allocator_, bytes, what));
    return memory.leave();
  }
  void release(void* memory, int64_t bytes) override { AlignedMemory::take_back(allocator_, memory, bytes); }
  Outcome check_pointer(const void*, std::string_view) const override { return {}; }

  Outcome read(void* to, const void* from, int64_t bytes) const override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return {};
  }
  Outcome write(void* to, const void* from, int64_t bytes) const override { return read(to, from, bytes); }
  Outcome zero(void* memory, int64_t bytes) const override {
    std::memset(memory, 0, static_cast<size_t>(bytes));
    return {};
  }

 private:
  Allocator allocator_;
};

/// The first error of the calls on a tensor's runs.
template <class Call>
Outcome on_runs(const StridedTensor& tensor, Call call) {
  Outcome outcome;
  for_each_run(tensor, [&](int64_t offset, int64_t bytes) {
    if (outcome) outcome = call(offset, bytes);
  });
  return outcome;
}

}  // namespace

std::unique_ptr<Device> make_host_device(const Allocator& allocator) { return std::make_unique<HostDevice>(allocator); }

Outcome gather_from(const Device& device, const StridedTensor& tensor, std::byte* dense) {
  if (tensor.dense_bytes() == 0) return {};
  if (device.is_host()) {
    gather(tensor, dense);
    return {};
  }
  if (tensor.strides.empty()) return device.read(dense, tensor.data, tensor.dense_bytes());
  // The whole span in one copy; a device's runs one by one would take a copy each.
  StridedTensor copy = tensor;
  std::vector<std::byte> span(
      static_cast<size_t>(compiler::span_elements(tensor.shape, tensor.strides) * tensor.element_bytes));
  STEPFUSE_TRY(device.read(span.data(), tensor.data, static_cast<int64_t>(span.size())));
  copy.data = span.data();
  gather(copy, dense);
  return {};
}

Outcome scatter_to(const Device& device, const std::byte* dense, const StridedTensor& tensor) {
  if (device.is_host()) {
    scatter(dense, tensor);
    return {};
  }
  return on_runs(tensor, [&, from = dense](int64_t offset, int64_t bytes) mutable {
    const std::byte* run = std::exchange(from, from + bytes);
    return device.write(tensor.data + offset, run, bytes);
  });
}

Outcome clear_on(const Device& device, const StridedTensor& tensor) {
  if (device.is_host()) {
    clear(tensor);
    return {};
  }
  return on_runs(tensor, [&](int64_t offset, int64_t bytes) { return device.zero(tensor.data + offset, bytes); });
}

Result<DeviceMemory> DeviceMemory::create(Device& device, int64_t bytes, std::string_view what) {
  DeviceMemory memory;
  if (bytes == 0) return memory;
  STEPFUSE_ASSIGN(memory.data_, device.allocate(bytes, what));
  memory.device_ = &device;
  memory.bytes_ = bytes;
  return memory;
}

}  // namespace stepfuse::runtime
