// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <sys/mman.h>

#include <fmt/format.h>
#include <unistd.h>

namespace stepfuse::vgpu::driver {
namespace {

constexpr size_t kRegionBytes = size_t{64} << 30;  // of addresses, not of memory

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

std::byte* reserve_pages(size_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(pages);
}

uint64_t address_of(const std::byte* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

Memory::~Memory() {
  for (auto& [address, allocation] : allocations_) munmap(allocation->mapping, allocation->mapped_bytes);
  for (const Region& region : regions_) munmap(region.begin, region.bytes);
}

uint64_t Memory::reserve(size_t bytes) {
  if (regions_.empty() || regions_.back().bytes - regions_.back().used < bytes) {
    const size_t size = std::max(kRegionBytes, bytes);
    regions_.push_back({reserve_pages(size), size, 0});
  }
  Region& region = regions_.back();
  region.used += bytes;
  return address_of(region.begin) + region.used - bytes;
}

/// Pages for so many bytes, which end as near to the unmapped page behind them as the alignment allows.
Allocation* Memory::map(size_t bytes, size_t alignment) {
  const size_t page = page_bytes();
  const size_t inside = round_up(bytes, std::max(page, alignment));
  auto allocation = std::make_unique<Allocation>();
  allocation->mapped_bytes = inside + 2 * page;
  allocation->mapping = reserve_pages(allocation->mapped_bytes);
  if (mprotect(allocation->mapping + page, inside, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  std::memset(allocation->mapping + page, 0xFF, inside);
  allocation->host = allocation->mapping + page + (inside - round_up(bytes, alignment));
  allocation->bytes = bytes;
  allocation->id = next_id_++;
  allocation->address = address_of(allocation->host);
  return allocation.release();
}

Allocation* Memory::allocate(int device, size_t bytes, size_t alignment) {
  if (bytes > limit_ || used_[device] + bytes > limit_) return nullptr;
  std::unique_ptr<Allocation> allocation(map(bytes, alignment));
  // The same place in its pages as on the host, so that both are aligned alike.
  const uint64_t pages = reserve(allocation->mapped_bytes);
  allocation->address = pages + address_of(allocation->host) - address_of(allocation->mapping);
  allocation->device = device;
  used_[device] += bytes;
  peak_ = std::max(peak_, used_in_all());
  return (allocations_[allocation->address] = std::move(allocation)).get();
}

Allocation* Memory::allocate_pinned(size_t bytes) {
  std::unique_ptr<Allocation> allocation(map(bytes, 256));
  allocation->pinned = true;
  return (allocations_[allocation->address] = std::move(allocation)).get();
}

void Memory::release(Allocation& allocation) {
  if (!allocation.pinned) used_[allocation.device] -= allocation.bytes;
  munmap(allocation.mapping, allocation.mapped_bytes);
  std::fill(std::begin(recent_), std::end(recent_), nullptr);
  allocations_.erase(allocation.address);
}

Allocation* Memory::find(uint64_t address) {
  for (Allocation* recent : recent_) {
    if (recent && address - recent->address < recent->bytes) return recent;
  }
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  Allocation* found = std::prev(after)->second.get();
  if (address - found->address >= found->bytes) return nullptr;
  recent_[next_recent_++ % std::size(recent_)] = found;
  return found;
}

Allocation* Memory::find_range(uint64_t address, size_t bytes) {
  Allocation* found = find(address);
  return found && bytes <= found->bytes - (address - found->address) ? found : nullptr;
}

std::byte* Memory::resolve(int device, uint64_t address, size_t bytes, bool write) {
  const auto fault = [&](std::string_view why) {
    return KernelFault(
        KernelFault::Kind::IllegalAddress,
        fmt::format("{} of {} bytes at {:#x} on device {}: {}", write ? "write" : "read", bytes, address, device, why));
  };
  Allocation* found = find(address);
  if (!found) {
    throw fault(is_device_address(address) ? "no allocation holds it, or it was freed" : "that is no device memory");
  }
  const uint64_t offset = address - found->address;
  if (bytes > found->bytes - offset) {
    throw fault(fmt::format("past the end of the {} bytes allocated at {:#x}", found->bytes, found->address));
  }
  if (!found->pinned && found->device != device) throw fault("memory of another device");
  if (!found->live) throw fault("its stream has not allocated it yet, or has freed it");
  return found->host + offset;
}

bool Memory::is_device_address(uint64_t address) const {
  return std::any_of(regions_.begin(), regions_.end(),
                     [&](const Region& region) { return address - address_of(region.begin) < region.bytes; });
}

uint64_t Memory::used(int device) const {
  auto found = used_.find(device);
  return found == used_.end() ? 0 : found->second;
}

uint64_t Memory::used_in_all() const {
  uint64_t sum = 0;
  for (const auto& [device, bytes] : used_) sum += bytes;
  return sum;
}

void Memory::reset_peak() { peak_ = used_in_all(); }

void Memory::release_context(const Context* context) {
  std::vector<Allocation*> owned;
  for (auto& [address, allocation] : allocations_) {
    if (allocation->context == context) owned.push_back(allocation.get());
  }
  for (Allocation* allocation : owned) release(*allocation);
}

uint64_t DeviceMemory::allocate(size_t bytes, size_t alignment) {
  Allocation* allocation = memory_.allocate(device_, std::max<size_t>(bytes, 1), std::max<size_t>(alignment, 1));
  if (!allocation) throw std::bad_alloc();
  return allocation->address;
}

void DeviceMemory::release(uint64_t address) {
  if (Allocation* allocation = memory_.find(address)) memory_.release(*allocation);
}

}  // namespace stepfuse::vgpu::driver
