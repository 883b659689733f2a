// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0

// Memory, copies and what a pointer points to.
#include "tests/vgpu/driver/call.h"

#include <cstring>

namespace stepfuse::vgpu::driver {
namespace {

Allocation* allocate(Driver& d, Context& context, size_t bytes) {
  require(bytes > 0, CUDA_ERROR_INVALID_VALUE, "zero bytes");
  require(!d.fail_this_allocation(), CUDA_ERROR_OUT_OF_MEMORY, "asked for by vgpu_fail_allocations");
  Allocation* made = d.memory->allocate(context.device, bytes);
  if (!made) {
    // Stream-ordered frees that are queued give room.
    wait_for_context(context);
    made = d.memory->allocate(context.device, bytes);
  }
  require(made, CUDA_ERROR_OUT_OF_MEMORY, "VGPU_MEMORY_MIB");
  made->context = &context;
  ++d.counters.allocations;
  d.note("address", made->address);
  return made;
}

/// The allocation that begins there.
Allocation& allocation_at(Driver& d, uint64_t address, bool pinned) {
  Allocation* found = d.memory->find(address);
  require(found && found->address == address && found->pinned == pinned, CUDA_ERROR_INVALID_VALUE,
          "no allocation begins there");
  require(!found->freeing, CUDA_ERROR_INVALID_VALUE, "freed already");
  return *found;
}

void check_device_range(Driver& d, uint64_t address, size_t bytes) {
  require(d.memory->find_range(address, bytes), CUDA_ERROR_INVALID_VALUE, "no device memory of so many bytes there");
}

/// Whether the driver knows the host pointer as pinned. A device's address is no host pointer.
bool check_host(Driver& d, const void* pointer, size_t bytes) {
  require(pointer, CUDA_ERROR_INVALID_VALUE, "null");
  const auto address = reinterpret_cast<uint64_t>(pointer);
  require(!d.memory->is_device_address(address), CUDA_ERROR_INVALID_VALUE, "a device's address as a host pointer");
  const Allocation* found = d.memory->find_range(address, bytes);
  return found && found->pinned;
}

void count_copy(Driver& d, size_t bytes, bool pageable) {
  d.note("bytes", bytes);
  d.note("pageable", pageable);
  ++d.counters.copies;
  d.counters.copied_bytes += bytes;
  if (pageable) ++d.counters.pageable_copies;
}

void upload(Driver& d, Stream& stream, CUdeviceptr to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  check_device_range(d, to, bytes);
  const bool pinned = check_host(d, from, bytes);
  count_copy(d, bytes, !pinned);
  submit(stream, copy_to_device(to, from, bytes, !pinned && !stream.capture));
}

void download(Driver& d, Stream& stream, void* to, CUdeviceptr from, size_t bytes) {
  if (bytes == 0) return;
  check_device_range(d, from, bytes);
  const bool pinned = check_host(d, to, bytes);
  count_copy(d, bytes, !pinned);
  const auto op = submit(stream, copy_to_host(to, from, bytes));
  // "For transfers from device memory to pageable host memory, the function will return only once the copy has
  // completed": the driver API's page on synchronisation behaviour, in other words.
  if (!pinned && op) {
    ++d.counters.synchronizations;
    wait_for(op, *stream.context);
  }
}

/// The blocking copies run on the default stream.
void blocking(Driver& d, Context& context, const char* what) {
  refuse_default_stream_in_capture(*context.legacy);
  refuse_in_capture(what);
  ++d.counters.synchronizations;
}

void set(Driver& d, CUstream stream, CUdeviceptr to, unsigned value, unsigned element_bytes, size_t count) {
  auto target = find_stream(stream, true);
  require(to % element_bytes == 0, CUDA_ERROR_INVALID_VALUE, "the address is not a multiple of the element's size");
  d.note("bytes", count * element_bytes);
  ++d.counters.memsets;
  if (count == 0) return;
  check_device_range(d, to, count * element_bytes);
  submit(*target, set_memory(to, value, element_bytes, count));
}

template <typename Value>
void store(void* out, Value value) {
  std::memcpy(out, &value, sizeof value);
}

/// One attribute of a pointer; all zero for pageable host memory.
void pointer_attribute(Driver& d, void* out, CUpointer_attribute attribute, const Allocation* found,
                       CUdeviceptr address) {
  const auto pick = [&](auto value) { return found ? value : decltype(value){}; };
  const Allocation none;
  const Allocation& at = found ? *found : none;
  if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT) {
    store(out, pick(at.context ? at.context->handle : nullptr));
  } else if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
    store(out, pick(unsigned{at.pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE}));
  } else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) {
    store(out, pick(address));
  } else if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
    require(at.pinned || !found, CUDA_ERROR_INVALID_VALUE, "device memory has no host pointer");
    store(out, pick(address));
  } else if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID) {
    store(out, pick(static_cast<unsigned long long>(at.id)));
  } else if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
    store(out, false);
  } else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
    store(out, found ? at.device : -2);  // "cudaInvalidDeviceId"
  } else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) {
    store(out, pick(CUdeviceptr{at.address}));
  } else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) {
    store(out, pick(at.bytes));
  } else if (attribute == CU_POINTER_ATTRIBUTE_MAPPED) {
    store(out, found != nullptr);
  } else {
    d.unknown(fmt::format("pointer attribute {}", static_cast<unsigned>(attribute)));
    refuse(CUDA_ERROR_INVALID_VALUE, "unknown attribute");
  }
}

}  // namespace
}  // namespace stepfuse::vgpu::driver

using namespace stepfuse::vgpu::driver;

VGPU_EXPORT(cuMemGetInfo_v2)(size_t* free, size_t* total) {
  return context_call("cuMemGetInfo_v2", [&](Driver& d, Context& context) {
    require(free && total, CUDA_ERROR_INVALID_VALUE, "null");
    *total = d.memory->limit();
    *free = d.memory->limit() - d.memory->used(context.device);
  });
}

VGPU_EXPORT(cuMemAlloc_v2)(CUdeviceptr* address, size_t bytes) {
  return context_call("cuMemAlloc_v2", [&](Driver& d, Context& context) {
    require(address, CUDA_ERROR_INVALID_VALUE, "null");
    d.note("bytes", bytes);
    refuse_in_capture("cuMemAlloc");
    *address = allocate(d, context, bytes)->address;
  });
}

/// Waits for the device first, as the driver does for memory of cuMemAlloc.
VGPU_EXPORT(cuMemFree_v2)(CUdeviceptr address) {
  return context_call("cuMemFree_v2", [&](Driver& d, Context&) {
    d.note("address", address);
    if (address == 0) return;
    refuse_in_capture("cuMemFree");
    Allocation& allocation = allocation_at(d, address, false);
    if (!allocation.stream_ordered) {
      ++d.counters.synchronizations;
      wait_for_context(*allocation.context);
    }
    d.memory->release(allocation);
    ++d.counters.frees;
  });
}

VGPU_EXPORT(cuMemAllocAsync)(CUdeviceptr* address, size_t bytes, CUstream handle) {
  return context_call("cuMemAllocAsync", [&](Driver& d, Context& context) {
    require(address, CUDA_ERROR_INVALID_VALUE, "null");
    d.note("bytes", bytes);
    auto stream = find_stream(handle, true);
    if (stream->capture) {
      d.unknown("allocation nodes in a captured graph");
      refuse_if_capturing(*stream, "cuMemAllocAsync");
    }
    Allocation* made = allocate(d, context, bytes);
    made->stream_ordered = true;
    made->live = false;
    const uint64_t begin = made->address;
    auto work = std::make_shared<Work>();
    work->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    work->label = "allocation";
    work->run = [begin](Context&) {
      if (Allocation* found = driver().memory->find(begin)) found->live = true;
    };
    submit(*stream, work);
    *address = begin;
  });
}

VGPU_EXPORT(cuMemFreeAsync)(CUdeviceptr address, CUstream handle) {
  return context_call("cuMemFreeAsync", [&](Driver& d, Context&) {
    d.note("address", address);
    auto stream = find_stream(handle, true);
    if (stream->capture) {
      d.unknown("free nodes in a captured graph");
      refuse_if_capturing(*stream, "cuMemFreeAsync");
    }
    Allocation& allocation = allocation_at(d, address, false);
    allocation.freeing = true;
    auto work = std::make_shared<Work>();
    work->type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    work->label = "free";
    work->run = [address](Context&) {
      if (Allocation* found = driver().memory->find(address)) driver().memory->release(*found);
    };
    submit(*stream, work);
    ++d.counters.frees;
  });
}

VGPU_EXPORT(cuMemHostAlloc)(void** pointer, size_t bytes, unsigned flags) {
  return context_call("cuMemHostAlloc", [&](Driver& d, Context& context) {
    require(pointer && bytes > 0, CUDA_ERROR_INVALID_VALUE, "null, or zero bytes");
    require(flags < 8, CUDA_ERROR_INVALID_VALUE, "unknown flags");
    d.note("bytes", bytes);
    refuse_in_capture("cuMemHostAlloc");
    Allocation* made = d.memory->allocate_pinned(bytes);
    made->context = &context;
    made->device = context.device;
    ++d.counters.host_allocations;
    *pointer = made->host;
  });
}

/// Does not wait: a queued copy that still uses the memory is a fault when it runs.
VGPU_EXPORT(cuMemFreeHost)(void* pointer) {
  return context_call("cuMemFreeHost", [&](Driver& d, Context&) {
    refuse_in_capture("cuMemFreeHost");
    d.memory->release(allocation_at(d, reinterpret_cast<uint64_t>(pointer), true));
  });
}

VGPU_EXPORT(cuMemcpyHtoDAsync_v2)(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return context_call("cuMemcpyHtoDAsync_v2",
                      [&](Driver& d, Context&) { upload(d, *find_stream(stream, true), to, from, bytes); });
}

VGPU_EXPORT(cuMemcpyDtoHAsync_v2)(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return context_call("cuMemcpyDtoHAsync_v2",
                      [&](Driver& d, Context&) { download(d, *find_stream(stream, true), to, from, bytes); });
}

VGPU_EXPORT(cuMemcpyDtoDAsync_v2)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
  return context_call("cuMemcpyDtoDAsync_v2", [&](Driver& d, Context&) {
    auto stream = find_stream(handle, true);
    if (bytes == 0) return;
    check_device_range(d, to, bytes);
    check_device_range(d, from, bytes);
    count_copy(d, bytes, false);
    submit(*stream, copy_on_device(to, from, bytes));
  });
}

VGPU_EXPORT(cuMemcpyHtoD_v2)(CUdeviceptr to, const void* from, size_t bytes) {
  return context_call("cuMemcpyHtoD_v2", [&](Driver& d, Context& context) {
    blocking(d, context, "cuMemcpyHtoD");
    upload(d, *context.legacy, to, from, bytes);
    wait_for(context.legacy->last, context);
  });
}

VGPU_EXPORT(cuMemcpyDtoH_v2)(void* to, CUdeviceptr from, size_t bytes) {
  return context_call("cuMemcpyDtoH_v2", [&](Driver& d, Context& context) {
    blocking(d, context, "cuMemcpyDtoH");
    download(d, *context.legacy, to, from, bytes);
    wait_for(context.legacy->last, context);
  });
}

VGPU_EXPORT(cuMemsetD8Async)(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return context_call("cuMemsetD8Async", [&](Driver& d, Context&) { set(d, stream, to, value, 1, count); });
}

VGPU_EXPORT(cuMemsetD32Async)(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return context_call("cuMemsetD32Async", [&](Driver& d, Context&) { set(d, stream, to, value, 4, count); });
}

VGPU_EXPORT(cuPointerGetAttribute)(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return context_call("cuPointerGetAttribute", [&](Driver& d, Context&) {
    require(value, CUDA_ERROR_INVALID_VALUE, "null");
    const Allocation* found = d.memory->find(address);
    require(found, CUDA_ERROR_INVALID_VALUE, "no pointer that the driver knows");
    pointer_attribute(d, value, attribute, found, address);
  });
}

VGPU_EXPORT(cuPointerGetAttributes)
(unsigned count, CUpointer_attribute* attributes, void** values, CUdeviceptr address) {
  return context_call("cuPointerGetAttributes", [&](Driver& d, Context&) {
    require(attributes && values && count > 0, CUDA_ERROR_INVALID_VALUE, "null");
    const Allocation* found = d.memory->find(address);
    for (unsigned i = 0; i < count; ++i) pointer_attribute(d, values[i], attributes[i], found, address);
  });
}
