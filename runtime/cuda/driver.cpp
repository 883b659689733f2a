// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/driver.h"

#include "runtime/cuda/cuda_libraries.h"

#include <array>
#include <map>
#include <mutex>

#include <unistd.h>

namespace stepfuse::runtime {

using cuda::CUresult;

namespace {

std::string result_name(const DriverFunctions& call, CUresult result) {
  const char* name = nullptr;
  if (call.cuGetErrorName(result, &name) != cuda::CUDA_SUCCESS || name == nullptr)
    return fmt::format("error {}", static_cast<int>(result));
  return name;
}

StatusCode code_of(CUresult result) {
  const bool argument = result == cuda::CUDA_ERROR_INVALID_VALUE || result == cuda::CUDA_ERROR_INVALID_HANDLE ||
                        result == cuda::CUDA_ERROR_INVALID_CONTEXT;
  return argument ? StatusCode::InvalidArgument : StatusCode::Environment;
}

Result<int> attribute(const Driver& driver, cuda::CUdevice device, cuda::CUdevice_attribute which) {
  int value = 0;
  STEPFUSE_TRY(
      driver.check(driver.call().cuDeviceGetAttribute(&value, which, device), "asking for a device attribute"));
  return value;
}

}  // namespace

Outcome Driver::load() {
  const std::string name = fmt::format("CUDA's driver ({})", path());
  constexpr const char* kHint = "update the driver: one of CUDA 12 or newer is needed";
#define STEPFUSE_CUDA_FUNCTION(function, since, exported, parameters) \
  STEPFUSE_TRY(opened_.bind(name, #exported, call_.function, kHint));
#include "runtime/cuda/api/driver_functions.def"
#undef STEPFUSE_CUDA_FUNCTION
  return {};
}

Outcome Driver::initialise() {
  const CUresult result = call_.cuInit(0);
  if (result == cuda::CUDA_ERROR_NO_DEVICE)
    return with_hint(fail(StatusCode::Environment, "CUDA's driver ({}) finds no device", path()),
                     "look at CUDA_VISIBLE_DEVICES; in a container, start it with access to the GPU");
  STEPFUSE_TRY(check(result, "initialising the driver"));
  STEPFUSE_TRY(check(call_.cuDriverGetVersion(&version_), "asking for the driver's version"));
  STEPFUSE_TRY(check(call_.cuDeviceGetCount(&devices_), "counting devices"));
  process_ = ::getpid();
  return {};
}

Result<const Driver*> Driver::open(const Settings& settings) {
  // By what the option says. Never destroyed: objects of static storage may still hold device memory at the end.
  static std::mutex mutex;
  static auto& by_option = *new std::map<std::string, const Driver*>;
  const LibraryPlaces places = LibraryPlaces::of(settings, driver_library());
  const std::lock_guard lock(mutex);
  if (const auto known = by_option.find(places.option); known != by_option.end()) return known->second;
  STEPFUSE_ASSIGN(OpenedLibrary found, open_driver(places));
  std::unique_ptr<Driver> opened(new Driver(std::move(found)));
  STEPFUSE_TRY(opened->load());
  STEPFUSE_TRY(opened->initialise());
  return by_option[places.option] = opened.release();
}

Outcome Driver::check(CUresult result, std::string_view doing) const {
  if (result == cuda::CUDA_SUCCESS) return {};
  const char* words = nullptr;
  if (call_.cuGetErrorString(result, &words) != cuda::CUDA_SUCCESS || words == nullptr) words = "no description";
  return fail(code_of(result), "CUDA failed while {}: {} ({})", doing, result_name(call_, result), words);
}

Outcome Driver::check_process() const { return check_process_of_cuda(process_); }

Result<CudaDevice> cuda_device(const Driver& driver, int ordinal) {
  if (ordinal < 0 || ordinal >= driver.devices())
    return with_hint(
        fail(StatusCode::InvalidArgument, "there is no CUDA device {}; {} found", ordinal, driver.devices()),
        "devices are counted from 0; CUDA_VISIBLE_DEVICES hides some");
  const DriverFunctions& call = driver.call();
  CudaDevice device;
  device.ordinal = ordinal;
  STEPFUSE_TRY(driver.check(call.cuDeviceGet(&device.handle, ordinal), "opening a device"));
  std::array<char, 256> name{};
  STEPFUSE_TRY(driver.check(call.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device.handle),
                            "asking for a device's name"));
  device.name = name.data();
  const auto ask = [&](cuda::CUdevice_attribute which) { return attribute(driver, device.handle, which); };
  STEPFUSE_ASSIGN(const int major, ask(cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  STEPFUSE_ASSIGN(const int minor, ask(cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  STEPFUSE_ASSIGN(device.multiprocessors, ask(cuda::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  device.capability = major * 10 + minor;
  size_t bytes = 0;
  STEPFUSE_TRY(driver.check(call.cuDeviceTotalMem(&bytes, device.handle), "asking for a device's memory"));
  device.memory_bytes = static_cast<int64_t>(bytes);
  return device;
}

Result<std::unique_ptr<CudaContext>> CudaContext::open(const Driver& driver, int ordinal) {
  STEPFUSE_TRY(driver.check_process());
  STEPFUSE_ASSIGN(CudaDevice device, cuda_device(driver, ordinal));
  std::unique_ptr<CudaContext> context(new CudaContext(driver, std::move(device)));
  const DriverFunctions& call = driver.call();
  cuda::CUcontext current = nullptr;
  STEPFUSE_TRY(driver.check(call.cuCtxGetCurrent(&current), "asking for the current context"));
  cuda::CUdevice owner = -1;
  if (current != nullptr)
    STEPFUSE_TRY(driver.check(call.cuCtxGetDevice(&owner), "asking for the current context's device"));
  if (current != nullptr && owner == context->device_.handle) {
    context->handle_ = current;
    return context;
  }
  STEPFUSE_TRY(driver.check(call.cuDevicePrimaryCtxRetain(&context->handle_, context->device_.handle),
                            "opening the device's primary context"));
  context->retained_ = true;
  return context;
}

CudaContext::~CudaContext() {
  if (retained_ && driver_.check_process()) driver_.call().cuDevicePrimaryCtxRelease(device_.handle);
}

Outcome CudaContext::check_stream(cuda::CUstream stream) const {
  if (stream == nullptr)
    return with_hint(fail(StatusCode::InvalidArgument, "no stream was given"),
                     "pass the stream that the gradients are ready on; the default stream would wait for all others");
  cuda::CUcontext owner = nullptr;
  STEPFUSE_TRY(driver_.check(driver_.call().cuStreamGetCtx(stream, &owner), "asking for a stream's context"));
  if (owner == handle_) return {};
  return with_hint(
      fail(StatusCode::InvalidArgument, "the stream belongs to another context than that of device {} ({})",
           device_.ordinal, device_.name),
      "make the stream on the device of the parameters");
}

Result<CurrentContext> CurrentContext::enter(const CudaContext& context) {
  const Driver& driver = context.driver();
  STEPFUSE_TRY(driver.check_process());
  STEPFUSE_TRY(driver.check(driver.call().cuCtxPushCurrent(context.handle()), "making its context current"));
  return CurrentContext(&driver);
}

CurrentContext::~CurrentContext() {
  cuda::CUcontext popped = nullptr;
  if (driver_ != nullptr) driver_->call().cuCtxPopCurrent(&popped);
}

}  // namespace stepfuse::runtime
