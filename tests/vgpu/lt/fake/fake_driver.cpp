// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/lt/fake/fake_driver.h"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

using namespace stepfuse::cuda;  // NOLINT(google-build-using-namespace): this library has its names

namespace {

struct Work {
  void (*run)(void*);
  void* data;
  void (*release)(void*);
};

struct Fake {
  std::map<uint64_t, size_t> allocations;
  std::vector<Work> queue;
  std::vector<VgpuRange> reads, writes;
  CUcontext context = nullptr;
  CUresult get_current = CUDA_SUCCESS;
  CUresult enqueue = CUDA_SUCCESS;
  CUresult fault = CUDA_SUCCESS;
  std::string fault_message;
};

Fake& fake() {
  static Fake instance;
  return instance;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = fake().context;
  return fake().get_current;
}

CUresult vgpu_enqueue_host(CUstream, const char*, void (*run)(void*), void* data, void (*release)(void*),
                           const VgpuRange* reads, size_t read_count, const VgpuRange* writes, size_t write_count) {
  if (fake().enqueue != CUDA_SUCCESS) {
    release(data);
    return fake().enqueue;
  }
  fake().reads.assign(reads, reads + read_count);
  fake().writes.assign(writes, writes + write_count);
  fake().queue.push_back({run, data, release});
  return CUDA_SUCCESS;
}

void* vgpu_resolve(unsigned long long address, size_t bytes, int) {
  auto behind = fake().allocations.upper_bound(address);
  if (behind != fake().allocations.begin()) {
    const auto& [begin, size] = *std::prev(behind);
    if (address + bytes <= begin + size) return reinterpret_cast<void*>(address);
  }
  fake().fault = CUDA_ERROR_ILLEGAL_ADDRESS;
  return nullptr;
}

void vgpu_fault(CUresult error, const char* message) {
  fake().fault = error;
  fake().fault_message = message;
}

const char* vgpu_last_fault() { return fake().fault_message.c_str(); }

void vgpu_note_call(const char*, int, const char*) {}

void* fake_allocate(size_t bytes) {
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  fake().allocations.emplace(reinterpret_cast<uint64_t>(memory), bytes);
  return memory;
}

void fake_free(void* memory) {
  fake().allocations.erase(reinterpret_cast<uint64_t>(memory));
  std::free(memory);
}

void fake_run_all() {
  for (const Work& work : fake().queue) work.run(work.data);
}

void fake_forget_all() {
  for (const Work& work : fake().queue) work.release(work.data);
  fake().queue.clear();
  fake().fault = CUDA_SUCCESS;
  fake().fault_message.clear();
}

void fake_set_context(CUcontext context) { fake().context = context; }

void fake_set_results(CUresult get_current, CUresult enqueue) {
  fake().get_current = get_current;
  fake().enqueue = enqueue;
}

size_t fake_last_reads(const VgpuRange** ranges) {
  *ranges = fake().reads.data();
  return fake().reads.size();
}

size_t fake_last_writes(const VgpuRange** ranges) {
  *ranges = fake().writes.data();
  return fake().writes.size();
}

CUresult fake_last_fault() { return fake().fault; }
