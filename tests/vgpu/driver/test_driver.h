// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/api/driver.h"
#include "tests/vgpu/vgpu_control.h"

#include <cstdlib>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

/// The built libcuda.so.1 opened as the runtime opens it, and a fixture with a fresh driver for each test.
namespace stepfuse::vgpu::test {

using namespace stepfuse::cuda;

inline void* driver_library() {
  static void* const library = dlopen(STEPFUSE_VGPU_CUDA, RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  return library;
}

template <typename Function>
Function* find_symbol(const char* name) {
  void* found = dlsym(driver_library(), name);
  if (!found) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function*>(found);
}

/// The driver's functions by the names without suffixes.
struct Api {
#define STEPFUSE_CUDA_FUNCTION(name, version, symbol, parameters) \
  FunctionOf_##symbol* name = find_symbol<FunctionOf_##symbol>(#symbol);
#include "runtime/cuda/api/driver_functions.def"
#undef STEPFUSE_CUDA_FUNCTION
#define CONTROL(name) decltype(::vgpu_##name)* name = find_symbol<decltype(::vgpu_##name)>("vgpu_" #name);
  CONTROL(enqueue_host)
  CONTROL(resolve)
  CONTROL(fault)
  CONTROL(counters)
  CONTROL(reset_counters)
  CONTROL(call_count)
  CONTROL(set_seed)
  CONTROL(set_eager)
  CONTROL(fail_allocations)
  CONTROL(last_fault)
  CONTROL(reset)
  CONTROL(peek)
#undef CONTROL
};

inline const Api& api() {
  static const Api made;
  return made;
}

#define ASSERT_CUDA(expression) ASSERT_EQ(expression, CUDA_SUCCESS)
#define EXPECT_CUDA(expression) EXPECT_EQ(expression, CUDA_SUCCESS)

class DriverTest : public testing::Test {
 protected:
  void SetUp() override { restart({}); }
  void TearDown() override {
    api().reset();
    for (const std::string& name : set_) unsetenv(name.c_str());
  }

  /// A driver as in a new process with these variables, initialised, with device 0's primary context current.
  void restart(const std::vector<std::pair<std::string, std::string>>& variables) {
    set("VGPU_STRICT", "0");
    for (const auto& [name, value] : variables) set(name, value);
    api().reset();
    ASSERT_CUDA(api().cuInit(0));
    ASSERT_CUDA(api().cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_CUDA(api().cuCtxSetCurrent(context_));
  }
  void restart_with_seed(int seed) { restart({{"VGPU_SEED", std::to_string(seed)}}); }

  CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    EXPECT_CUDA(api().cuStreamCreate(&stream, flags));
    return stream;
  }
  CUevent make_event(unsigned flags = CU_EVENT_DISABLE_TIMING) {
    CUevent event = nullptr;
    EXPECT_CUDA(api().cuEventCreate(&event, flags));
    return event;
  }
  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_CUDA(api().cuMemAlloc(&address, bytes));
    return address;
  }
  /// Queues a call of `run`, as another stand-in would.
  CUresult enqueue(CUstream stream, std::function<void()> run, std::vector<VgpuRange> reads = {},
                   std::vector<VgpuRange> writes = {}) {
    return api().enqueue_host(
        stream, "test", [](void* data) { (*static_cast<std::function<void()>*>(data))(); },
        new std::function<void()>(std::move(run)), [](void* data) { delete static_cast<std::function<void()>*>(data); },
        reads.data(), reads.size(), writes.data(), writes.size());
  }
  VgpuCounters counters() {
    VgpuCounters now;
    api().counters(&now);
    return now;
  }
  uint32_t word_at(CUdeviceptr address) {
    uint32_t word = 0;
    EXPECT_EQ(api().peek(address, &word, sizeof word), 0);
    return word;
  }

  CUcontext context_ = nullptr;

 private:
  void set(const std::string& name, const std::string& value) {
    set_.insert(name);
    setenv(name.c_str(), value.c_str(), 1);
  }
  std::set<std::string> set_;
};

}  // namespace stepfuse::vgpu::test
