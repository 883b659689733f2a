// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/driver.h"

#include "tests/vgpu/driver/call.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include <pthread.h>

namespace stepfuse::vgpu::driver {
namespace {

uint64_t environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 0) : otherwise;
}

std::atomic<bool> was_initialized = false;
std::atomic<bool> forked_child = false;

struct ThreadState {
  uint64_t generation = 0;
  std::vector<std::shared_ptr<Context>> contexts;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
/// Of this thread; forgotten when the driver was reset.
ThreadState& thread_state() {
  static thread_local ThreadState state;
  if (state.generation != driver().generation) state = {driver().generation, {}, CU_STREAM_CAPTURE_MODE_GLOBAL};
  return state;
}

/// Streams and operations hold their context; so that it can end, it lets go of its own.
void forget_work(Context& context) {
  context.legacy.reset();
  context.orphans.clear();
}

}  // namespace

Driver::Driver() {
  devices = static_cast<int>(environment("VGPU_DEVICES", 1));
  strict = environment("VGPU_STRICT", 1) != 0;
  if (const char* path = std::getenv("VGPU_TRACE"); path && *path) {
    trace = std::fopen(path, "ae");
    if (!trace) fmt::print(stderr, "virtual driver: cannot write the trace VGPU_TRACE={}\n", path);
  }
  scheduler.seed(environment("VGPU_SEED", 0));
  memory = std::make_unique<Memory>(environment("VGPU_MEMORY_MIB", 2048) << 20);
  for (int device = 0; device < devices; ++device) {
    device_memory.push_back(std::make_unique<DeviceMemory>(*memory, device));
  }
  primaries.resize(static_cast<size_t>(devices));
  machine_options.capability = kCapability;
}

Driver::~Driver() {
  // Queued work holds kernels, and these their modules' memory.
  scheduler.clear();
  contexts.each(forget_work);
  if (trace) std::fclose(trace);
}

namespace {

std::unique_ptr<Driver>& instance() {
  // Never destroyed: a process may end with work queued, and threads may still call.
  static auto* const made = new std::unique_ptr<Driver>([] {
    pthread_atfork(nullptr, nullptr, [] { forked_child = was_initialized.load(); });
    return std::make_unique<Driver>();
  }());
  return *made;
}

}  // namespace

Driver& driver() { return *instance(); }

void Driver::unknown(const std::string& message) {
  ++counters.unknown;
  fmt::print(stderr, "virtual driver: {}\n", message);
  if (trace) {
    fmt::print(trace, "unknown: {}\n", message);
    std::fflush(trace);
  }
  if (strict) std::abort();
}

void Driver::fault(Context& context, CUresult result, const std::string& message) {
  ++counters.faults;
  if (context.sticky == CUDA_SUCCESS) {
    context.sticky = result;
    last_fault = message;
  }
  fmt::print(stderr, "virtual driver: {}: {}\n", result_name(result), message);
  if (trace) fmt::print(trace, "fault {} {}\n", result_name(result), message);
}

bool Driver::fail_this_allocation() {
  if (allocations_to_pass > 0) {
    --allocations_to_pass;
    return false;
  }
  if (allocations_to_fail == 0) return false;
  --allocations_to_fail;
  return true;
}

std::shared_ptr<Context> Driver::make_context(int device, bool primary) {
  auto context = std::make_shared<Context>();
  context->device = device;
  context->primary = primary;
  context->id = next_id++;
  context->legacy = std::make_shared<Stream>();
  context->legacy->context = context;
  context->legacy->legacy = true;
  contexts.add(context);
  return context;
}

void Driver::destroy_context(Context& context) {
  scheduler.run_all(context);
  context.alive = false;
  const auto ours = [&](const auto& object) { return object.context.get() == &context; };
  forget_captures(context);
  streams.remove_if(ours);
  events.remove_if(ours);
  functions.remove_if(ours);
  execs.remove_if(ours);
  memory->release_context(&context);
  dead_contexts.insert(context.handle);
  forget_work(context);
  contexts.remove(context.handle);
}

std::vector<std::shared_ptr<Context>>& context_stack() { return thread_state().contexts; }
CUstreamCaptureMode& thread_capture_mode() { return thread_state().mode; }

std::shared_ptr<Context> current_context() {
  auto& stack = context_stack();
  if (stack.empty() || !stack.back()) refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current in this thread");
  auto context = stack.back();
  if (!context->alive) refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed");
  if (context->sticky != CUDA_SUCCESS) refuse(context->sticky, "an earlier fault: " + driver().last_fault);
  return context;
}

void check_device(int device) {
  require(device >= 0 && device < driver().devices, CUDA_ERROR_INVALID_DEVICE, "no such device");
}

Context*& executing_context() {
  static Context* context = nullptr;  // under the driver's lock
  return context;
}

bool used_before_fork(const char* name) {
  if (!forked_child) return false;
  fmt::print(stderr, "virtual driver: {} in a child of a process that had called cuInit\n", name);
  return true;
}

void finish_call(const char* name, CUresult result, const std::string& why,
                 std::chrono::steady_clock::time_point start) {
  Driver& d = driver();
  d.counters.nanoseconds += static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
  if (d.initialized) was_initialized = true;
  ++d.counters.calls;
  ++d.call_counts[name];
  if (!d.trace) return;
  fmt::print(d.trace, "{} {}{}{}{}\n", name, result_name(result), d.details, why.empty() ? "" : " why=", why);
  std::fflush(d.trace);
}

const char* result_name(CUresult result) {
  static const std::map<unsigned, const char*> names = {
#define NAME(name, value) {value, #name},
      STEPFUSE_CUDA_RESULTS(NAME)
#undef NAME
  };
  const auto found = names.find(result);
  return found == names.end() ? nullptr : found->second;
}

}  // namespace stepfuse::vgpu::driver

using stepfuse::vgpu::driver::driver;
using stepfuse::vgpu::driver::Driver;

void vgpu_reset() {
  auto& holder = stepfuse::vgpu::driver::instance();
  const uint64_t generation = holder->generation + 1;
  auto fresh = std::make_unique<Driver>();
  fresh->generation = generation;
  // The old one ends before the new one begins to answer.
  holder.reset();
  holder = std::move(fresh);
  stepfuse::vgpu::driver::was_initialized = false;
  stepfuse::vgpu::driver::forked_child = false;
}
