// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/aligned_memory.h"

#include <limits>

namespace stepfuse::runtime {

namespace {

size_t rounded(int64_t bytes) {
  constexpr int64_t kAlignment = AlignedMemory::kAlignment;
  return static_cast<size_t>((bytes + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

Result<AlignedMemory> AlignedMemory::create(const Allocator& allocator, int64_t bytes, std::string_view what) {
  AlignedMemory memory;
  if (bytes == 0) return memory;
  const auto failed = [&] {
    return with_hint(fail(StatusCode::Environment, "cannot allocate {} bytes for {}", bytes, what),
                     "use fewer or smaller parameters, or a machine with more memory");
  };
  if (bytes > std::numeric_limits<int64_t>::max() - kAlignment) return failed();
  memory.allocator_ = allocator;
  memory.bytes_ = rounded(bytes);
  memory.data_ = allocator.allocate(allocator.user, memory.bytes_, static_cast<size_t>(kAlignment));
  if (memory.data_ == nullptr) return failed();
  if (reinterpret_cast<uintptr_t>(memory.data_) % static_cast<uintptr_t>(kAlignment) != 0)
    return with_hint(fail(StatusCode::Environment, "the allocator gave memory for {} that is not aligned to {} bytes",
                          what, kAlignment),
                     "the allocate hook gets the alignment it must honour");
  return memory;
}

void AlignedMemory::take_back(const Allocator& allocator, void* data, int64_t bytes) {
  allocator.release(allocator.user, data, rounded(bytes));
}

}  // namespace stepfuse::runtime
