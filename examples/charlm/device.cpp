// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include "failure.h"

#include <cstdint>
#include <string>

#include <dlfcn.h>

namespace charlm {
namespace {

// As the driver API has them.
using Result = int;
using Address = unsigned long long;
using Handle = void*;
constexpr unsigned kNonBlocking = 1;

}  // namespace

/// The few functions of the driver that this program calls, and what they made.
struct DeviceCopy::Driver {
  Handle library = nullptr;
  Result (*init)(unsigned) = nullptr;
  Result (*device_get)(int*, int) = nullptr;
  Result (*retain)(Handle*, int) = nullptr;
  Result (*release)(int) = nullptr;
  Result (*set_current)(Handle) = nullptr;
  Result (*stream_create)(Handle*, unsigned) = nullptr;
  Result (*stream_destroy)(Handle) = nullptr;
  Result (*stream_synchronize)(Handle) = nullptr;
  Result (*allocate)(Address*, std::size_t) = nullptr;
  Result (*free)(Address) = nullptr;
  Result (*to_device)(Address, const void*, std::size_t, Handle) = nullptr;
  Result (*to_host)(void*, Address, std::size_t, Handle) = nullptr;

  int device = -1;
  Handle stream = nullptr;
  Address values = 0, gradients = 0;
  std::size_t bytes = 0;

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr)
      throw Failure(ExitCode::Missing, std::string("CUDA's driver has no function ") + name, "install a newer driver");
  }

  void open() {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      throw Failure(ExitCode::Missing, "there is no CUDA driver (libcuda.so.1)", "leave out --target cuda");
    find(init, "cuInit");
    find(device_get, "cuDeviceGet");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(release, "cuDevicePrimaryCtxRelease_v2");
    find(set_current, "cuCtxSetCurrent");
    find(stream_create, "cuStreamCreate");
    find(stream_destroy, "cuStreamDestroy_v2");
    find(stream_synchronize, "cuStreamSynchronize");
    find(allocate, "cuMemAlloc_v2");
    find(free, "cuMemFree_v2");
    find(to_device, "cuMemcpyHtoDAsync_v2");
    find(to_host, "cuMemcpyDtoHAsync_v2");
  }

  static void check(Result result, const char* doing) {
    if (result == 0) return;
    throw Failure(ExitCode::Missing, std::string("CUDA failed while ") + doing + ": error " + std::to_string(result),
                  "look at the device with nvidia-smi");
  }

  void start(std::size_t count) {
    open();
    check(init(0), "starting");
    int ordinal = -1;
    check(device_get(&ordinal, 0), "opening the device");
    Handle context = nullptr;
    check(retain(&context, ordinal), "opening the device's context");
    device = ordinal;
    check(set_current(context), "opening the device's context");
    check(stream_create(&stream, kNonBlocking), "making a stream");
    bytes = count * sizeof(float);
    check(allocate(&values, bytes), "allocating parameters");
    check(allocate(&gradients, bytes), "allocating gradients");
  }

  ~Driver() {
    if (gradients != 0) free(gradients);
    if (values != 0) free(values);
    if (stream != nullptr) stream_destroy(stream);
    if (device >= 0) release(device);
  }
};

DeviceCopy::DeviceCopy(std::size_t count) : driver_(std::make_unique<Driver>()) { driver_->start(count); }
DeviceCopy::~DeviceCopy() = default;

// NOLINTBEGIN(performance-no-int-to-ptr): the driver gives addresses as numbers
float* DeviceCopy::values() const { return reinterpret_cast<float*>(driver_->values); }
const float* DeviceCopy::gradients() const { return reinterpret_cast<const float*>(driver_->gradients); }
// NOLINTEND(performance-no-int-to-ptr)
void* DeviceCopy::stream() const { return driver_->stream; }

void DeviceCopy::upload_values(const float* from) {
  Driver::check(driver_->to_device(driver_->values, from, driver_->bytes, driver_->stream), "copying parameters");
}

void DeviceCopy::upload_gradients(const float* from) {
  Driver::check(driver_->to_device(driver_->gradients, from, driver_->bytes, driver_->stream), "copying gradients");
}

void DeviceCopy::download_values(float* to) {
  Driver::check(driver_->to_host(to, driver_->values, driver_->bytes, driver_->stream), "copying parameters");
  Driver::check(driver_->stream_synchronize(driver_->stream), "waiting for the device");
}

}  // namespace charlm
