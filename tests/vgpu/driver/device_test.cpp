// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/test_driver.h"

#include <cstring>
#include <fstream>
#include <sys/wait.h>
#include <thread>

#include <unistd.h>

namespace stepfuse::vgpu::test {
namespace {

class Device : public DriverTest {};
using DeviceDeathTest = Device;

TEST_F(Device, SaysWhatItIs) {
  int version = 0, count = 0, major = 0, minor = 0;
  char name[64];
  size_t bytes = 0;
  ASSERT_CUDA(api().cuDriverGetVersion(&version));
  ASSERT_CUDA(api().cuDeviceGetCount(&count));
  ASSERT_CUDA(api().cuDeviceGetName(name, sizeof name, 0));
  ASSERT_CUDA(api().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  ASSERT_CUDA(api().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
  ASSERT_CUDA(api().cuDeviceTotalMem(&bytes, 0));
  EXPECT_EQ(version, 13000);
  EXPECT_EQ(count, 1);
  EXPECT_STREQ(name, "Stepfuse virtual GPU");
  EXPECT_EQ(major * 10 + minor, 129);
  EXPECT_EQ(bytes, size_t{2048} << 20);
  CUdevice device = 0;
  EXPECT_EQ(api().cuDeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(Device, SeveralDevicesDiffer) {
  restart({{"VGPU_DEVICES", "3"}});
  CUuuid first, third;
  ASSERT_CUDA(api().cuDeviceGetUuid(&first, 0));
  ASSERT_CUDA(api().cuDeviceGetUuid(&third, 2));
  EXPECT_NE(std::memcmp(&first, &third, sizeof first), 0);
}

TEST_F(Device, NoDevice) {
  setenv("VGPU_DEVICES", "0", 1);
  api().reset();
  EXPECT_EQ(api().cuInit(0), CUDA_ERROR_NO_DEVICE);
  unsetenv("VGPU_DEVICES");
}

TEST_F(Device, NothingWorksBeforeInit) {
  api().reset();
  int count = 0;
  EXPECT_EQ(api().cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
}

TEST_F(DeviceDeathTest, UnknownAttributesAreLoud) {
  const auto unknown = static_cast<CUdevice_attribute>(14);  // of textures
  int value = 0;
  EXPECT_EQ(api().cuDeviceGetAttribute(&value, unknown, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(counters().unknown, 1U);
  EXPECT_DEATH(
      {
        restart({{"VGPU_STRICT", "1"}});
        (void)api().cuDeviceGetAttribute(&value, unknown, 0);
      },
      "device attribute 14 is not in the table");
}

TEST_F(Device, ErrorsHaveNames) {
  const char* text = nullptr;
  ASSERT_CUDA(api().cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  ASSERT_CUDA(api().cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_NE(text, nullptr);
  EXPECT_EQ(api().cuGetErrorName(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Device, FunctionsAreFoundByNameAndVersion) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
#define STEPFUSE_CUDA_FUNCTION(name, version, symbol, parameters)                      \
  ASSERT_CUDA(api().cuGetProcAddress(#name, &function, version, 0, &status)) << #name; \
  EXPECT_EQ(function, reinterpret_cast<void*>(api().name)) << #name;                   \
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS) << #name;
#include "runtime/cuda/api/driver_functions.def"
  EXPECT_EQ(api().cuGetProcAddress("cuMemAlloc", &function, 3010, 0, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(api().cuGetProcAddress("cuNothing", &function, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(function, nullptr);
  // A real driver would answer with a function of other parameters.
  EXPECT_EQ(api().cuGetProcAddress("cuStreamGetCaptureInfo", &function, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(counters().unknown, 1U);
}

TEST_F(Device, HasNoExportTables) {
  const void* table = &table;
  const CUuuid id{};
  EXPECT_EQ(api().cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(table, nullptr);
}

TEST_F(Device, ContextsAreCurrentPerThread) {
  CUcontext current = nullptr;
  std::thread([&] {
    EXPECT_CUDA(api().cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    CUdeviceptr address = 0;
    EXPECT_EQ(api().cuMemAlloc(&address, 4), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(api().cuCtxPopCurrent(&current), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CUDA(api().cuCtxPushCurrent(context_));
    EXPECT_CUDA(api().cuMemAlloc(&address, 4));
    EXPECT_CUDA(api().cuCtxPopCurrent(&current));
    EXPECT_EQ(current, context_);
  }).join();
}

TEST_F(Device, ThePrimaryContextIsCounted) {
  CUcontext again = nullptr;
  unsigned flags = 0;
  int active = 0;
  unsigned long long id = 0, next_id = 0;
  ASSERT_CUDA(api().cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(again, context_);
  ASSERT_CUDA(api().cuCtxGetId(context_, &id));
  CUstream stream = make_stream();
  ASSERT_CUDA(api().cuDevicePrimaryCtxRelease(0));
  ASSERT_CUDA(api().cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 1);
  ASSERT_CUDA(api().cuDevicePrimaryCtxRelease(0));
  ASSERT_CUDA(api().cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 0);
  // What belonged to it is gone with it.
  EXPECT_EQ(api().cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(api().cuCtxSetCurrent(context_), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  ASSERT_CUDA(api().cuDevicePrimaryCtxRetain(&again, 0));
  ASSERT_CUDA(api().cuCtxSetCurrent(again));
  ASSERT_CUDA(api().cuCtxGetId(nullptr, &next_id));
  EXPECT_NE(id, next_id);
  EXPECT_EQ(api().cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Device, StreamsBelongToTheirContext) {
  CUcontext own = nullptr, of_stream = nullptr;
  CUstream stream = make_stream();
  const CUdeviceptr address = allocate(4);
  ASSERT_CUDA(api().cuCtxCreate(&own, 0, 0));
  ASSERT_CUDA(api().cuStreamGetCtx(stream, &of_stream));
  EXPECT_EQ(of_stream, context_);
  EXPECT_EQ(api().cuMemsetD8Async(address, 0, 4, stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(api().cuEventRecord(make_event(), stream), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_CUDA(api().cuCtxDestroy(own));
  EXPECT_EQ(api().cuCtxPushCurrent(own), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_CUDA(api().cuMemsetD8Async(address, 0, 4, stream));
}

TEST_F(Device, HandlesAreChecked) {
  CUstream stream = make_stream();
  ASSERT_CUDA(api().cuStreamDestroy(stream));
  EXPECT_EQ(api().cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(api().cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
  CUevent event = make_event();
  ASSERT_CUDA(api().cuEventDestroy(event));
  EXPECT_EQ(api().cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(api().cuCtxSetCurrent(reinterpret_cast<CUcontext>(0x10)), CUDA_ERROR_INVALID_CONTEXT);
}

/// What a forked child sees, as its exit status.
CUresult in_child(const std::function<CUresult()>& call) {
  const pid_t child = fork();
  if (child == 0) _exit(static_cast<int>(call()));
  int status = 0;
  waitpid(child, &status, 0);
  return static_cast<CUresult>(WEXITSTATUS(status));
}

TEST_F(Device, AForkedChildCannotUseIt) {
  EXPECT_EQ(in_child([] { return api().cuInit(0); }), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(in_child([] { return api().cuCtxSynchronize(); }), CUDA_ERROR_NOT_INITIALIZED);
  api().reset();  // not used yet: the child may
  EXPECT_EQ(in_child([] { return api().cuInit(0); }), CUDA_SUCCESS);
}

TEST_F(Device, TracesEveryCall) {
  const std::string path = testing::TempDir() + "/vgpu_trace_" + std::to_string(getpid());
  restart({{"VGPU_TRACE", path}});
  CUdeviceptr address = 0;
  ASSERT_CUDA(api().cuMemAlloc(&address, 64));
  EXPECT_EQ(api().cuMemFree(address + 1), CUDA_ERROR_INVALID_VALUE);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("cuMemAlloc_v2 CUDA_SUCCESS bytes=64"), std::string::npos) << text;
  EXPECT_NE(text.find("cuMemFree_v2 CUDA_ERROR_INVALID_VALUE"), std::string::npos) << text;
  unlink(path.c_str());
}

TEST_F(Device, ThreadsMayCallAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      ASSERT_CUDA(api().cuCtxSetCurrent(context_));
      CUstream stream = nullptr;
      ASSERT_CUDA(api().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      CUdeviceptr address = 0;
      ASSERT_CUDA(api().cuMemAlloc(&address, 4));
      for (unsigned round = 0; round < 50; ++round) {
        ASSERT_CUDA(api().cuMemsetD32Async(address, round, 1, stream));
        uint32_t word = 0;
        ASSERT_CUDA(api().cuMemcpyDtoHAsync(&word, address, 4, stream));
        ASSERT_EQ(word, round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace stepfuse::vgpu::test
