// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "runtime/context.h"
#include "runtime/strided.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace stepfuse::runtime {

/// Where an optimizer's tensors lie, and how the host reaches them. Copies wait for all steps before them and are done
/// when they return; they belong to set-up, checkpoints and tests. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  /// Whether the host may follow pointers to this memory.
  virtual bool is_host() const = 0;
  /// As DLPack counts devices of one kind.
  virtual int ordinal() const = 0;
  /// A stream of the device's own for a caller who has none; null where there are no streams.
  virtual void* stream() const = 0;

  /// At least 64-byte aligned; what it holds is unknown. `what` completes "cannot allocate N bytes for ...". More than
  /// 0 bytes.
  virtual Result<void*> allocate(int64_t bytes, std::string_view what) = 0;
  virtual void release(void* memory, int64_t bytes) = 0;
  /// Whether a tensor may lie there; `label` names the tensor.
  virtual Outcome check_pointer(const void* pointer, std::string_view label) const = 0;

  virtual Outcome read(void* to, const void* from, int64_t bytes) const = 0;
  virtual Outcome write(void* to, const void* from, int64_t bytes) const = 0;
  virtual Outcome zero(void* memory, int64_t bytes) const = 0;
};

std::unique_ptr<Device> make_host_device(const Allocator& allocator);

/// A tensor on a device, copied out to dense host memory, copied in, or set to +0. Bytes between its elements stay.
Outcome gather_from(const Device& device, const StridedTensor& tensor, std::byte* dense);
Outcome scatter_to(const Device& device, const std::byte* dense, const StridedTensor& tensor);
Outcome clear_on(const Device& device, const StridedTensor& tensor);

/// A block of a device, given back with its owner. No bytes, no block.
class DeviceMemory {
 public:
  static Result<DeviceMemory> create(Device& device, int64_t bytes, std::string_view what);

  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) device_->release(data_, bytes_);
  }

  std::byte* get() const { return static_cast<std::byte*>(data_); }
  uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }
  int64_t bytes() const { return bytes_; }

 private:
  void swap(DeviceMemory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Device* device_ = nullptr;  // outlives the block
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace stepfuse::runtime
