// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/call.h"
#include "tests/vgpu/vgpu_control.h"

#include <cstring>

using namespace stepfuse::vgpu::driver;

namespace {

/// Work of another stand-in, with its data for as long as somebody may run it.
struct HostWork {
  void (*run)(void*) = nullptr;
  void* data = nullptr;
  void (*release)(void*) = nullptr;

  HostWork(void (*run_function)(void*), void* run_data, void (*release_function)(void*))
      : run(run_function), data(run_data), release(release_function) {}
  ~HostWork() {
    if (release) release(data);
  }
  HostWork(const HostWork&) = delete;
  HostWork& operator=(const HostWork&) = delete;
};

void run_host_work(const HostWork& host, const std::vector<VgpuRange>& reads, const std::vector<VgpuRange>& writes,
                   Context& context) {
  Driver& d = driver();
  for (const VgpuRange& range : reads) d.memory->resolve(context.device, range.address, range.bytes, false);
  for (const VgpuRange& range : writes) d.memory->resolve(context.device, range.address, range.bytes, true);
  ++d.counters.host_operations_run;
  host.run(host.data);
}

}  // namespace

CUresult vgpu_enqueue_host(CUstream handle, const char* name, void (*run)(void*), void* data, void (*release)(void*),
                           const VgpuRange* reads, size_t read_count, const VgpuRange* writes, size_t write_count) {
  auto host = std::make_shared<HostWork>(run, data, release);
  return context_call("vgpu_enqueue_host", [&](Driver& d, Context&) {
    d.note("name", name);
    require(run, CUDA_ERROR_INVALID_VALUE, "null");
    auto stream = find_stream(handle);
    auto work = std::make_shared<Work>();
    if (read_count) work->reads.assign(reads, reads + read_count);
    if (write_count) work->writes.assign(writes, writes + write_count);
    work->type = stepfuse::cuda::CU_GRAPH_NODE_TYPE_KERNEL;  // as what a library launches would be
    work->label = name;
    work->run = [host, reads = work->reads, writes = work->writes](Context& context) {
      run_host_work(*host, reads, writes, context);
    };
    submit(*stream, work);
  });
}

void* vgpu_resolve(unsigned long long address, size_t bytes, int write) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  Context* context = executing_context();
  if (!context) {
    d.unknown("vgpu_resolve outside of an operation that runs");
    return nullptr;
  }
  try {
    return d.memory->resolve(context->device, address, bytes, write != 0);
  } catch (const stepfuse::vgpu::KernelFault& fault) {
    d.fault(*context, CUDA_ERROR_ILLEGAL_ADDRESS, fault.what());
    return nullptr;
  }
}

void vgpu_fault(CUresult error, const char* message) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  Context* context = executing_context();
  if (!context) return d.unknown("vgpu_fault outside of an operation that runs");
  d.fault(*context, error, message);
}

void vgpu_note_call(const char* name, int result, const char* details) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  ++d.counters.calls;
  ++d.call_counts[name];
  if (!d.trace) return;
  fmt::print(d.trace, "{} {} {}\n", name, result, details);
  std::fflush(d.trace);
}

void vgpu_unknown(const char* message) {
  std::lock_guard lock(driver().mutex);
  driver().unknown(message);
}

void vgpu_counters(VgpuCounters* counters) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  *counters = d.counters;
  for (int device = 0; device < d.devices; ++device) counters->live_bytes += d.memory->used(device);
  counters->peak_bytes = d.memory->peak();
}

void vgpu_reset_counters() {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  d.counters = {};
  d.call_counts.clear();
  d.memory->reset_peak();
}

uint64_t vgpu_call_count(const char* symbol) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  const auto found = d.call_counts.find(symbol);
  return found == d.call_counts.end() ? 0 : found->second;
}

void vgpu_set_seed(uint64_t seed) {
  std::lock_guard lock(driver().mutex);
  driver().scheduler.seed(seed);
}

void vgpu_set_eager(int eager) {
  std::lock_guard lock(driver().mutex);
  driver().eager = eager != 0;
}

void vgpu_set_find_races(int find) {
  std::lock_guard lock(driver().mutex);
  driver().machine_options.find_races = find != 0;
}

void vgpu_set_max_instructions(uint64_t instructions) {
  std::lock_guard lock(driver().mutex);
  driver().machine_options.max_instructions = instructions;
}

void vgpu_fail_allocations(uint64_t skip, uint64_t count) {
  std::lock_guard lock(driver().mutex);
  driver().allocations_to_pass = skip;
  driver().allocations_to_fail = count;
}

const char* vgpu_last_fault() {
  std::lock_guard lock(driver().mutex);
  return driver().last_fault.c_str();
}

int vgpu_peek(unsigned long long address, void* to, size_t bytes) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  const auto* found = d.memory->find_range(address, bytes);
  if (!found) return 1;
  std::memcpy(to, found->host + (address - found->address), bytes);
  return 0;
}
