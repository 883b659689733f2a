// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/cuda_memory.h"

#include <array>

namespace stepfuse::runtime {

/// Copies of small tables to the device that do not hold the host up: each batch of copies has pinned memory of its
/// own, which is used again when its copies are done.
class UploadRing {
 public:
  /// `bytes`: most that one batch copies.
  static Result<UploadRing> create(const Driver& driver, int64_t bytes);
  UploadRing() = default;
  UploadRing(UploadRing&& other) noexcept { swap(other); }
  UploadRing& operator=(UploadRing&& other) noexcept {
    swap(other);
    return *this;
  }
  ~UploadRing();

  /// Queues one copy of the batch that finish() ends; `from` may change afterwards.
  Outcome copy(uint64_t to, const void* from, int64_t bytes, cuda::CUstream stream);
  /// After the last copy. Nothing without one.
  Outcome finish(cuda::CUstream stream);

  int64_t copies() const { return copies_; }
  int64_t waits() const { return waits_; }  // for the device, because all slots were in use

 private:
  static constexpr size_t kSlots = 4;
  struct Slot {
    PinnedMemory memory;
    cuda::CUevent done = nullptr;
    bool pending = false;
  };
  void swap(UploadRing& other) noexcept;
  Outcome open_slot();

  const Driver* driver_ = nullptr;
  std::array<Slot, kSlots> slots_;
  size_t next_ = 0;
  bool open_ = false;
  int64_t size_ = 0, used_ = 0;
  int64_t copies_ = 0, waits_ = 0;
};

}  // namespace stepfuse::runtime
