// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/driver/driver.h"

#include <cstring>

namespace stepfuse::vgpu::driver {
namespace {

std::byte* resolve(const Context& context, uint64_t address, size_t bytes, bool write) {
  return driver().memory->resolve(context.device, address, bytes, write);
}

/// A copy that waits in a queue must still find the pinned memory it was given.
void check_still_pinned(bool pinned, const void* pointer, size_t bytes) {
  if (pinned && !driver().memory->find_range(reinterpret_cast<uint64_t>(pointer), bytes)) {
    throw WorkFault(CUDA_ERROR_ILLEGAL_ADDRESS, fmt::format("pinned memory at {} was freed before a copy that was "
                                                            "queued for it ran",
                                                            pointer));
  }
}

bool is_pinned(const void* pointer, size_t bytes) {
  const Allocation* found = driver().memory->find_range(reinterpret_cast<uint64_t>(pointer), bytes);
  return found && found->pinned;
}

std::shared_ptr<const Work> make(CUgraphNodeType type, std::string label, std::function<void(Context&)> run) {
  auto work = std::make_shared<Work>();
  work->type = type;
  work->label = std::move(label);
  work->run = std::move(run);
  return work;
}

}  // namespace

std::shared_ptr<const Work> empty_work(const char* label) { return make(CU_GRAPH_NODE_TYPE_EMPTY, label, nullptr); }

/// `stage` copies the source now, as the driver does with pageable memory; otherwise it is read when the copy runs.
std::shared_ptr<const Work> copy_to_device(uint64_t to, const void* from, size_t bytes, bool stage) {
  auto staged = std::make_shared<std::vector<std::byte>>();
  if (stage) {
    const auto* begin = static_cast<const std::byte*>(from);
    staged->assign(begin, begin + bytes);
  }
  const bool pinned = is_pinned(from, bytes);
  return make(CU_GRAPH_NODE_TYPE_MEMCPY, "copy to the device", [=](Context& context) {
    if (!stage) check_still_pinned(pinned, from, bytes);
    std::memcpy(resolve(context, to, bytes, true), stage ? staged->data() : from, bytes);
  });
}

std::shared_ptr<const Work> copy_to_host(void* to, uint64_t from, size_t bytes) {
  const bool pinned = is_pinned(to, bytes);
  return make(CU_GRAPH_NODE_TYPE_MEMCPY, "copy to the host", [=](Context& context) {
    check_still_pinned(pinned, to, bytes);
    std::memcpy(to, resolve(context, from, bytes, false), bytes);
  });
}

std::shared_ptr<const Work> copy_on_device(uint64_t to, uint64_t from, size_t bytes) {
  return make(CU_GRAPH_NODE_TYPE_MEMCPY, "copy on the device", [=](Context& context) {
    std::memcpy(resolve(context, to, bytes, true), resolve(context, from, bytes, false), bytes);
  });
}

std::shared_ptr<const Work> set_memory(uint64_t to, unsigned value, unsigned element_bytes, size_t count) {
  return make(CU_GRAPH_NODE_TYPE_MEMSET, "memset", [=](Context& context) {
    std::byte* out = resolve(context, to, count * element_bytes, true);
    for (size_t i = 0; i < count; ++i) std::memcpy(out + i * element_bytes, &value, element_bytes);
  });
}

}  // namespace stepfuse::vgpu::driver
