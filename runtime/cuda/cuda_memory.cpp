// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_memory.h"

namespace stepfuse::runtime {

using cuda::CUdeviceptr;
using cuda::CUresult;

Result<std::unique_ptr<CudaMemory>> CudaMemory::open(int ordinal, const Context& context) {
  STEPFUSE_ASSIGN(const Driver* driver, Driver::open(context.settings()));
  STEPFUSE_ASSIGN(std::unique_ptr<CudaContext> opened, CudaContext::open(*driver, ordinal));
  std::unique_ptr<CudaMemory> memory(new CudaMemory(std::move(opened), context.device_allocator()));
  STEPFUSE_ASSIGN(const CurrentContext scope, CurrentContext::enter(memory->context()));
  STEPFUSE_TRY(
      driver->check(driver->call().cuStreamCreate(&memory->stream_, cuda::CU_STREAM_NON_BLOCKING), "making a stream"));
  return memory;
}

CudaMemory::~CudaMemory() {
  if (stream_ == nullptr) return;
  if (const auto scope = CurrentContext::enter(*context_)) driver().call().cuStreamDestroy(stream_);
}

tl::unexpected<Status> CudaMemory::no_memory(int64_t bytes, std::string_view what) const {
  size_t free = 0, total = 0;
  driver().call().cuMemGetInfo(&free, &total);
  return with_hint(fail(StatusCode::Environment, "cannot allocate {} bytes for {} on device {} ({}): {} of {} are free",
                        bytes, what, ordinal(), context_->device().name, free, total),
                   "free memory on the device, use fewer or smaller parameters, or leave out the pass 'branches'");
}

Result<void*> CudaMemory::allocate(int64_t bytes, std::string_view what) {
  STEPFUSE_ASSIGN(const CurrentContext scope, CurrentContext::enter(*context_));
  if (allocator_.allocate != nullptr) {
    void* memory = allocator_.allocate(allocator_.user, static_cast<size_t>(bytes), ordinal(), stream_);
    if (memory == nullptr) return no_memory(bytes, what);
    return memory;
  }
  CUdeviceptr address = 0;
  const CUresult result = driver().call().cuMemAlloc(&address, static_cast<size_t>(bytes));
  if (result == cuda::CUDA_ERROR_OUT_OF_MEMORY) return no_memory(bytes, what);
  STEPFUSE_TRY(driver().check(result, fmt::format("allocating memory for {}", what)));
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): as the API gives addresses
}

void CudaMemory::release(void* memory, int64_t bytes) {
  const auto scope = CurrentContext::enter(*context_);
  if (!scope) return;  // the device is out of reach, in a forked child
  if (allocator_.release == nullptr) {
    driver().call().cuMemFree(address_of(memory));  // waits for the device
    return;
  }
  driver().call().cuCtxSynchronize();
  allocator_.release(allocator_.user, memory, static_cast<size_t>(bytes), ordinal(), stream_);
}

Outcome CudaMemory::check_pointer(const void* pointer, std::string_view label) const {
  STEPFUSE_ASSIGN(const CurrentContext scope, CurrentContext::enter(*context_));
  unsigned type = 0;
  int owner = -1;
  std::array<cuda::CUpointer_attribute, 2> wanted{cuda::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                  cuda::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 2> values{&type, &owner};
  STEPFUSE_TRY(driver().check(driver().call().cuPointerGetAttributes(static_cast<unsigned>(wanted.size()),
                                                                     wanted.data(), values.data(), address_of(pointer)),
                              fmt::format("looking where {} lies", label)));
  if (type != cuda::CU_MEMORYTYPE_DEVICE && type != cuda::CU_MEMORYTYPE_UNIFIED)
    return with_hint(fail(StatusCode::InvalidArgument, "{} lies in host memory, and the optimizer runs on device {}",
                          label, ordinal()),
                     "pass device memory, or use the target cpu");
  if (owner == ordinal()) return {};
  return with_hint(fail(StatusCode::InvalidArgument, "{} lies on device {}, and the optimizer runs on device {}", label,
                        owner, ordinal()),
                   "one optimizer serves one device: the setting 'device' says which");
}

template <class Call>
Outcome CudaMemory::after_all(Call call) const {
  STEPFUSE_ASSIGN(const CurrentContext scope, CurrentContext::enter(*context_));
  STEPFUSE_TRY(driver().check(driver().call().cuCtxSynchronize(), "waiting for the device"));
  STEPFUSE_TRY(call());
  return driver().check(driver().call().cuStreamSynchronize(stream_), "waiting for a copy");
}

Outcome CudaMemory::read(void* to, const void* from, int64_t bytes) const {
  return after_all([&] {
    return driver().check(driver().call().cuMemcpyDtoHAsync(to, address_of(from), static_cast<size_t>(bytes), stream_),
                          "copying from the device");
  });
}

Outcome CudaMemory::write(void* to, const void* from, int64_t bytes) const {
  return after_all([&] {
    return driver().check(driver().call().cuMemcpyHtoDAsync(address_of(to), from, static_cast<size_t>(bytes), stream_),
                          "copying to the device");
  });
}

Outcome CudaMemory::zero(void* memory, int64_t bytes) const {
  return after_all([&] {
    return driver().check(driver().call().cuMemsetD8Async(address_of(memory), 0, static_cast<size_t>(bytes), stream_),
                          "clearing memory");
  });
}

Result<PinnedMemory> PinnedMemory::create(const Driver& driver, size_t bytes) {
  PinnedMemory memory;
  if (bytes == 0) return memory;
  STEPFUSE_TRY(driver.check(driver.call().cuMemHostAlloc(&memory.data_, bytes, 0), "allocating pinned memory"));
  memory.driver_ = &driver;
  return memory;
}

}  // namespace stepfuse::runtime
