// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/machine.h"

#include <cstring>
#include <map>
#include <new>
#include <sys/mman.h>

#include <unistd.h>

namespace stepfuse::vgpu {
namespace {

struct Allocation {
  std::byte* mapping = nullptr;
  size_t mapped_bytes = 0;
  size_t bytes = 0;
  bool freed = false;
};

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

struct TestMemory::Impl {
  std::map<uint64_t, Allocation> allocations;
};

TestMemory::TestMemory() : impl_(std::make_unique<Impl>()) {}

TestMemory::~TestMemory() {
  for (auto& [address, allocation] : impl_->allocations) munmap(allocation.mapping, allocation.mapped_bytes);
}

std::byte* TestMemory::resolve(uint64_t address, size_t bytes, bool write) {
  static_cast<void>(write);
  const auto refuse = [&](const char* why) {
    throw KernelFault(KernelFault::Kind::IllegalAddress,
                      "address " + std::to_string(address) + " (" + std::to_string(bytes) + " bytes) is " + why);
  };
  const auto next = impl_->allocations.upper_bound(address);
  if (next == impl_->allocations.begin()) refuse("in no allocation");
  const auto& [start, allocation] = *std::prev(next);
  const uint64_t offset = address - start;
  if (offset > allocation.bytes || bytes > allocation.bytes - offset) refuse("in no allocation");
  if (allocation.freed) refuse("freed");
  return reinterpret_cast<std::byte*>(address);
}

// The allocation ends at the page behind it, as near as its alignment lets it.
uint64_t TestMemory::allocate(size_t bytes, size_t alignment) {
  const size_t page = page_bytes();
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  const size_t body = (std::max<size_t>(rounded, 1) + page - 1) / page * page;
  void* mapping = mmap(nullptr, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  auto* first = static_cast<std::byte*>(mapping) + page;
  if (mprotect(first, body, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  std::memset(first, 0xff, body);
  const auto address = reinterpret_cast<uint64_t>(first + body - rounded);
  impl_->allocations[address] = {static_cast<std::byte*>(mapping), body + 2 * page, bytes, false};
  return address;
}

// The pages stay, so that the address is not given out again and a use after the release is seen.
void TestMemory::release(uint64_t address) {
  Allocation& allocation = impl_->allocations.at(address);
  std::memset(reinterpret_cast<std::byte*>(address), 0xff, allocation.bytes);
  allocation.freed = true;
}

}  // namespace stepfuse::vgpu
