// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/upload_ring.h"

#include <cstring>
#include <utility>

namespace stepfuse::runtime {

Result<UploadRing> UploadRing::create(const Driver& driver, int64_t bytes) {
  UploadRing ring;
  ring.driver_ = &driver;
  ring.size_ = bytes;
  for (Slot& slot : ring.slots_) {
    STEPFUSE_ASSIGN(slot.memory, PinnedMemory::create(driver, static_cast<size_t>(bytes)));
    STEPFUSE_TRY(
        driver.check(driver.call().cuEventCreate(&slot.done, cuda::CU_EVENT_DISABLE_TIMING), "making an event"));
  }
  return ring;
}

void UploadRing::swap(UploadRing& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(slots_, other.slots_);
  std::swap(next_, other.next_);
  std::swap(open_, other.open_);
  std::swap(size_, other.size_);
  std::swap(used_, other.used_);
  std::swap(copies_, other.copies_);
  std::swap(waits_, other.waits_);
}

UploadRing::~UploadRing() {
  for (const Slot& slot : slots_)
    if (slot.done != nullptr && driver_->check_process()) driver_->call().cuEventDestroy(slot.done);
}

Outcome UploadRing::open_slot() {
  if (open_) return {};
  Slot& slot = slots_[next_];
  if (slot.pending) {
    const DriverFunctions& call = driver_->call();
    const cuda::CUresult state = call.cuEventQuery(slot.done);
    if (state == cuda::CUDA_ERROR_NOT_READY) {
      ++waits_;
      STEPFUSE_TRY(driver_->check(call.cuEventSynchronize(slot.done), "waiting for copied tables"));
    } else {
      STEPFUSE_TRY(driver_->check(state, "asking for copied tables"));
    }
  }
  open_ = true;
  used_ = 0;
  return {};
}

Outcome UploadRing::copy(uint64_t to, const void* from, int64_t bytes, cuda::CUstream stream) {
  STEPFUSE_TRY(open_slot());
  STEPFUSE_CHECK(used_ + bytes <= size_, "{} bytes of tables, room for {}", used_ + bytes, size_);
  std::byte* staged = slots_[next_].memory.get() + std::exchange(used_, used_ + bytes);
  std::memcpy(staged, from, static_cast<size_t>(bytes));
  ++copies_;
  return driver_->check(driver_->call().cuMemcpyHtoDAsync(to, staged, static_cast<size_t>(bytes), stream),
                        "copying tables to the device");
}

Outcome UploadRing::finish(cuda::CUstream stream) {
  if (!std::exchange(open_, false)) return {};
  Slot& slot = slots_[next_];
  slot.pending = true;
  next_ = (next_ + 1) % kSlots;
  return driver_->check(driver_->call().cuEventRecord(slot.done, stream), "marking copied tables");
}

}  // namespace stepfuse::runtime
