// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/api/driver.h"
#include "tests/vgpu/ptx/machine.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace stepfuse::vgpu::driver {

struct Context;

/// One piece of device memory, or of pinned host memory (which every device sees at its host address).
struct Allocation {
  uint64_t address = 0;
  size_t bytes = 0;
  std::byte* host = nullptr;  // where the machine finds the bytes
  int device = 0;
  bool pinned = false;
  bool stream_ordered = false;  // by cuMemAllocAsync
  bool live = true;             // not yet allocated, in its stream's order, or already freed there
  bool freeing = false;         // cuMemFreeAsync was called
  uint64_t id = 0;
  Context* context = nullptr;
  std::byte* mapping = nullptr;  // host pages with one unmapped page on both sides
  size_t mapped_bytes = 0;
};

/// The memory of all devices. A device address is the address of a reserved page of this process that nobody may
/// touch, so a host that follows a device pointer faults; the bytes lie elsewhere. No address is used twice: freed
/// memory is gone for good.
class Memory {
 public:
  explicit Memory(uint64_t bytes_per_device) : limit_(bytes_per_device) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Null if the device has not so much left. Filled with 0xFF: a NaN in every format.
  Allocation* allocate(int device, size_t bytes, size_t alignment = 256);
  Allocation* allocate_pinned(size_t bytes);
  void release(Allocation& allocation);

  /// The allocation that holds the address, or null.
  Allocation* find(uint64_t address);
  /// The same, if all of the bytes lie in it.
  Allocation* find_range(uint64_t address, size_t bytes);
  /// What a kernel of the device reaches. Throws KernelFault.
  std::byte* resolve(int device, uint64_t address, size_t bytes, bool write);
  /// Whether the address lies in what was reserved for devices.
  bool is_device_address(uint64_t address) const;

  uint64_t limit() const { return limit_; }
  uint64_t used(int device) const;
  uint64_t peak() const { return peak_; }
  void reset_peak();
  void release_context(const Context* context);

 private:
  struct Region {
    std::byte* begin;
    size_t bytes, used;
  };
  uint64_t reserve(size_t bytes);
  Allocation* map(size_t bytes, size_t alignment);
  uint64_t used_in_all() const;

  uint64_t limit_;
  uint64_t peak_ = 0;
  uint64_t next_id_ = 1;
  std::vector<Region> regions_;
  std::map<uint64_t, std::unique_ptr<Allocation>> allocations_;  // by address
  std::map<int, uint64_t> used_;
  Allocation* recent_[4] = {};  // most accesses of a kernel go to few allocations
  unsigned next_recent_ = 0;
};

/// Global memory as the kernels of one device see it.
class DeviceMemory final : public GlobalMemory {
 public:
  DeviceMemory(Memory& memory, int device) : memory_(memory), device_(device) {}
  std::byte* resolve(uint64_t address, size_t bytes, bool write) override {
    return memory_.resolve(device_, address, bytes, write);
  }
  uint64_t allocate(size_t bytes, size_t alignment) override;
  void release(uint64_t address) override;

 private:
  Memory& memory_;
  int device_;
};

}  // namespace stepfuse::vgpu::driver
