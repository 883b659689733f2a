// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/test_driver.h"

#include <cstring>

namespace stepfuse::vgpu::test {
namespace {

class Memory : public DriverTest {};
using MemoryDeathTest = Memory;

constexpr uint32_t kPoison = 0xFFFFFFFF;

TEST_F(Memory, IsPoisonedAndAlignedAndLimited) {
  const CUdeviceptr address = allocate(1000);
  EXPECT_EQ(address % 256, 0U);
  std::vector<uint8_t> bytes(1000);
  ASSERT_CUDA(api().cuMemcpyDtoH(bytes.data(), address, bytes.size()));
  EXPECT_EQ(bytes, std::vector<uint8_t>(1000, 0xFF));

  restart({{"VGPU_MEMORY_MIB", "2"}});
  CUdeviceptr more = 0;
  EXPECT_EQ(api().cuMemAlloc(&more, 3 << 20), CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr most = allocate(2 << 20);
  EXPECT_EQ(api().cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CUDA(api().cuMemFree(most));
  EXPECT_CUDA(api().cuMemAlloc(&more, 1 << 20));
  size_t free = 0, total = 0;
  EXPECT_CUDA(api().cuMemGetInfo(&free, &total));
  EXPECT_EQ(free, 1U << 20);
  EXPECT_EQ(total, 2U << 20);
  EXPECT_EQ(counters().peak_bytes, 2U << 20);
}

TEST_F(Memory, AllocationsFailWhenAsked) {
  api().fail_allocations(1, 2);
  CUdeviceptr address = 0;
  EXPECT_CUDA(api().cuMemAlloc(&address, 16));
  EXPECT_EQ(api().cuMemAlloc(&address, 16), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(api().cuMemAlloc(&address, 16), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CUDA(api().cuMemAlloc(&address, 16));
  EXPECT_EQ(counters().allocations, 2U);
}

TEST_F(MemoryDeathTest, TheHostCannotReadADevicePointer) {
  const CUdeviceptr address = allocate(64);
  EXPECT_DEATH(
      {
        volatile auto value = *reinterpret_cast<volatile char*>(address);
        (void)value;
      },
      "");
}

TEST_F(MemoryDeathTest, HostWorkCannotLeaveTheAllocation) {
  const auto write_at = [&](ptrdiff_t offset) {
    restart({});  // a death test runs in a forked child
    const CUdeviceptr address = allocate(256);
    CUstream stream = make_stream();
    EXPECT_CUDA(enqueue(stream, [=] { static_cast<volatile char*>(api().resolve(address, 256, 1))[offset] = 0; }));
    EXPECT_CUDA(api().cuStreamSynchronize(stream));
  };
  write_at(255);
  EXPECT_DEATH(write_at(256), "");
  EXPECT_DEATH(write_at(-4096), "");
}

TEST_F(Memory, UseAfterFreeIsRefusedOrAFault) {
  const CUdeviceptr address = allocate(64);
  CUstream stream = make_stream();
  EXPECT_CUDA(api().cuMemFree(address));
  EXPECT_EQ(api().cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api().cuMemsetD8Async(address, 0, 64, stream), CUDA_ERROR_INVALID_VALUE);
  ASSERT_CUDA(enqueue(stream, [=] { EXPECT_EQ(api().resolve(address, 64, 0), nullptr); }));
  EXPECT_EQ(api().cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(std::string(api().last_fault()).find("freed"), std::string::npos);
}

TEST_F(Memory, RangesOfHostWorkAreChecked) {
  const CUdeviceptr address = allocate(64);
  CUstream stream = make_stream();
  bool ran = false;
  ASSERT_CUDA(enqueue(stream, [&] { ran = true; }, {{address, 64}}, {{address + 32, 33}}));
  EXPECT_EQ(api().cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_FALSE(ran);
}

TEST_F(Memory, CuMemFreeWaitsForTheDevice) {
  const CUdeviceptr address = allocate(4);
  CUstream stream = make_stream();
  ASSERT_CUDA(api().cuMemsetD32Async(address, 1, 1, stream));
  EXPECT_CUDA(api().cuMemFree(address));
  EXPECT_CUDA(api().cuStreamSynchronize(stream));
}

TEST_F(Memory, StreamOrderedMemoryNeedsAnEventOnOtherStreams) {
  for (const bool with_event : {true, false}) {
    int faults = 0;
    for (int seed = 0; seed < 20; ++seed) {
      restart_with_seed(seed);
      CUstream one = make_stream(), two = make_stream();
      CUdeviceptr address = 0;
      ASSERT_CUDA(api().cuMemAllocAsync(&address, 64, one));
      CUevent event = make_event();
      ASSERT_CUDA(api().cuEventRecord(event, one));
      if (with_event) {
        ASSERT_CUDA(api().cuStreamWaitEvent(two, event, 0));
      }
      ASSERT_CUDA(api().cuMemsetD32Async(address, 7, 16, two));
      faults += api().cuStreamSynchronize(two) != CUDA_SUCCESS;
    }
    if (with_event) {
      EXPECT_EQ(faults, 0);
    } else {
      EXPECT_GT(faults, 0);
    }
  }
}

TEST_F(Memory, StreamOrderedFreeHappensInOrder) {
  CUstream stream = make_stream();
  CUdeviceptr address = 0;
  ASSERT_CUDA(api().cuMemAllocAsync(&address, 64, stream));
  ASSERT_CUDA(api().cuMemsetD32Async(address, 7, 16, stream));
  ASSERT_CUDA(api().cuMemFreeAsync(address, stream));
  EXPECT_EQ(api().cuMemFreeAsync(address, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(api().cuStreamSynchronize(stream));
  EXPECT_EQ(counters().live_bytes, 0U);
}

TEST_F(Memory, PinnedSourcesAreReadLateAndPageableOnesAtOnce) {
  int late = 0;
  for (int seed = 0; seed < 20; ++seed) {
    restart_with_seed(seed);
    CUstream stream = make_stream();
    const CUdeviceptr from_pinned = allocate(4), from_pageable = allocate(4);
    void* pinned = nullptr;
    ASSERT_CUDA(api().cuMemHostAlloc(&pinned, 4, 0));
    auto* word = static_cast<uint32_t*>(pinned);
    uint32_t pageable = *word = 1;
    ASSERT_CUDA(api().cuMemcpyHtoDAsync(from_pinned, pinned, 4, stream));
    ASSERT_CUDA(api().cuMemcpyHtoDAsync(from_pageable, &pageable, 4, stream));
    pageable = *word = 2;
    ASSERT_CUDA(api().cuStreamSynchronize(stream));
    late += word_at(from_pinned) == 2;
    EXPECT_EQ(word_at(from_pageable), 1U);
    EXPECT_EQ(counters().copies, 2U);
    EXPECT_EQ(counters().pageable_copies, 1U);
  }
  EXPECT_GT(late, 10);
}

TEST_F(Memory, DownloadsToPinnedMemoryArriveLate) {
  CUstream stream = make_stream();
  const CUdeviceptr address = allocate(4);
  void* pinned = nullptr;
  ASSERT_CUDA(api().cuMemHostAlloc(&pinned, 4, 0));
  EXPECT_EQ(*static_cast<uint32_t*>(pinned), kPoison);
  ASSERT_CUDA(api().cuMemsetD32Async(address, 5, 1, stream));
  ASSERT_CUDA(api().cuMemcpyDtoHAsync(pinned, address, 4, stream));
  ASSERT_CUDA(api().cuStreamSynchronize(stream));
  EXPECT_EQ(*static_cast<uint32_t*>(pinned), 5U);
  uint32_t pageable = 0;  // waits
  ASSERT_CUDA(api().cuMemcpyDtoHAsync(&pageable, address, 4, stream));
  EXPECT_EQ(pageable, 5U);
}

TEST_F(Memory, PinnedMemoryFreedUnderACopyIsAFault) {
  int faults = 0;
  for (int seed = 0; seed < 20; ++seed) {
    restart_with_seed(seed);
    CUstream stream = make_stream();
    const CUdeviceptr address = allocate(4);
    void* pinned = nullptr;
    ASSERT_CUDA(api().cuMemHostAlloc(&pinned, 4, 0));
    ASSERT_CUDA(api().cuMemcpyHtoDAsync(address, pinned, 4, stream));
    ASSERT_CUDA(api().cuMemFreeHost(pinned));
    faults += api().cuStreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  EXPECT_GT(faults, 10);
}

TEST_F(Memory, CopiesAreCheckedAtTheCall) {
  CUstream stream = make_stream();
  const CUdeviceptr address = allocate(16);
  char host[32] = {};
  EXPECT_EQ(api().cuMemcpyHtoDAsync(address, host, 17, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api().cuMemcpyHtoDAsync(address + 8, host, 9, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api().cuMemcpyHtoDAsync(address, nullptr, 4, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api().cuMemcpyHtoDAsync(address, reinterpret_cast<void*>(address), 4, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api().cuMemcpyDtoDAsync(address, reinterpret_cast<CUdeviceptr>(host), 4, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(api().cuMemsetD32Async(address + 2, 0, 1, stream), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, PointersSayWhatTheyPointTo) {
  restart({{"VGPU_DEVICES", "2"}});
  CUcontext second = nullptr;
  ASSERT_CUDA(api().cuDevicePrimaryCtxRetain(&second, 1));
  ASSERT_CUDA(api().cuCtxPushCurrent(second));
  const CUdeviceptr address = allocate(100);
  void* pinned = nullptr;
  ASSERT_CUDA(api().cuMemHostAlloc(&pinned, 8, 0));

  CUcontext context = nullptr;
  unsigned type = 0;
  int ordinal = -1;
  CUdeviceptr start = 0;
  size_t size = 0;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&context, &type, &ordinal, &start, &size};
  ASSERT_CUDA(api().cuPointerGetAttributes(5, asked, values, address + 40));
  EXPECT_EQ(context, second);
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_EQ(ordinal, 1);
  EXPECT_EQ(start, address);
  EXPECT_EQ(size, 100U);
  ASSERT_CUDA(api().cuPointerGetAttributes(5, asked, values, reinterpret_cast<CUdeviceptr>(pinned)));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_HOST});
  int pageable = 0;
  ASSERT_CUDA(api().cuPointerGetAttributes(5, asked, values, reinterpret_cast<CUdeviceptr>(&pageable)));
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(
      api().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&pageable)),
      CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, AnotherDevicesMemoryIsAnIllegalAddress) {
  restart({{"VGPU_DEVICES", "2"}});
  const CUdeviceptr on_first = allocate(4);
  CUcontext second = nullptr;
  ASSERT_CUDA(api().cuDevicePrimaryCtxRetain(&second, 1));
  ASSERT_CUDA(api().cuCtxSetCurrent(second));
  CUstream stream = make_stream();
  ASSERT_CUDA(enqueue(stream, [] {}, {{on_first, 4}}));
  EXPECT_EQ(api().cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(std::string(api().last_fault()).find("another device"), std::string::npos);
  // Only that device's context is lost.
  ASSERT_CUDA(api().cuCtxSetCurrent(context_));
  EXPECT_CUDA(api().cuCtxSynchronize());
}

TEST_F(Memory, PageableHostMemoryIsAnIllegalAddress) {
  CUstream stream = make_stream();
  int host = 0;
  ASSERT_CUDA(enqueue(stream, [] {}, {{reinterpret_cast<CUdeviceptr>(&host), 4}}));
  EXPECT_EQ(api().cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  // It sticks: every call answers with it from now on.
  CUdeviceptr address = 0;
  EXPECT_EQ(api().cuMemAlloc(&address, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUstream another = nullptr;
  EXPECT_EQ(api().cuStreamCreate(&another, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace stepfuse::vgpu::test
