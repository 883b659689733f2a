// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "runtime/context.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace stepfuse::runtime {

/// A block of a context's allocator, on whole cache lines; what it holds is unknown. No bytes, no block.
class AlignedMemory {
 public:
  static constexpr int64_t kAlignment = 64;  // a cache line, and the widest vector

  /// `what` completes "cannot allocate N bytes for ...".
  static Result<AlignedMemory> create(const Allocator& allocator, int64_t bytes, std::string_view what);

  AlignedMemory() = default;
  AlignedMemory(AlignedMemory&& other) noexcept { swap(other); }
  AlignedMemory& operator=(AlignedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~AlignedMemory() {
    if (data_ != nullptr) allocator_.release(allocator_.user, data_, bytes_);
  }

  /// Gives the block to the caller, who hands it to take_back() with the bytes that create() was asked for.
  void* leave() { return std::exchange(data_, nullptr); }
  static void take_back(const Allocator& allocator, void* data, int64_t bytes);

  std::byte* get() const { return static_cast<std::byte*>(data_); }

 private:
  void swap(AlignedMemory& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Allocator allocator_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace stepfuse::runtime
