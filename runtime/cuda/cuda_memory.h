// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/driver.h"
#include "runtime/device.h"

#include <memory>

namespace stepfuse::runtime {

/// A CUDA device as an optimizer uses it: its context, a stream of our own, and its memory, which comes from the
/// caller's hooks where there are any.
class CudaMemory final : public Device {
 public:
  static Result<std::unique_ptr<CudaMemory>> open(int ordinal, const Context& context);
  ~CudaMemory() override;

  const CudaContext& context() const { return *context_; }
  const Driver& driver() const { return context_->driver(); }
  cuda::CUstream own_stream() const { return stream_; }

  bool is_host() const override { return false; }
  int ordinal() const override { return context_->device().ordinal; }
  void* stream() const override { return stream_; }
  Result<void*> allocate(int64_t bytes, std::string_view what) override;
  void release(void* memory, int64_t bytes) override;
  Outcome check_pointer(const void* pointer, std::string_view label) const override;
  Outcome read(void* to, const void* from, int64_t bytes) const override;
  Outcome write(void* to, const void* from, int64_t bytes) const override;
  Outcome zero(void* memory, int64_t bytes) const override;

 private:
  CudaMemory(std::unique_ptr<CudaContext> context, const DeviceAllocator& allocator)
      : context_(std::move(context)), allocator_(allocator) {}
  tl::unexpected<Status> no_memory(int64_t bytes, std::string_view what) const;
  /// Runs `call` in the context, after all work that was queued before.
  template <class Call>
  Outcome after_all(Call call) const;

  std::unique_ptr<CudaContext> context_;
  DeviceAllocator allocator_;
  cuda::CUstream stream_ = nullptr;
};

/// Pinned memory of the host, which copies to the device can read while the host goes on.
class PinnedMemory {
 public:
  static Result<PinnedMemory> create(const Driver& driver, size_t bytes);
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept { swap(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedMemory() {
    if (data_ != nullptr && driver_->check_process()) driver_->call().cuMemFreeHost(data_);
  }
  std::byte* get() const { return static_cast<std::byte*>(data_); }

 private:
  void swap(PinnedMemory& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(data_, other.data_);
  }
  const Driver* driver_ = nullptr;
  void* data_ = nullptr;
};

inline cuda::CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<cuda::CUdeviceptr>(pointer); }

}  // namespace stepfuse::runtime
