// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "runtime/cuda/api/driver.h"
#include "runtime/cuda/cuda_architectures.h"
#include "runtime/cuda/find_library.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>

namespace stepfuse::runtime {

/// The driver's functions by the API's names.
struct DriverFunctions {
#define STEPFUSE_CUDA_FUNCTION(name, version, symbol, parameters) cuda::FunctionOf_##symbol* name = nullptr;
#include "runtime/cuda/api/driver_functions.def"
#undef STEPFUSE_CUDA_FUNCTION
};

/// libcuda, opened and initialised: the only way to a device. Thread-safe, lives as long as the process.
class Driver {
 public:
  /// Opens it once per process; only success is final. Without a driver or a device: Environment, with what was tried.
  static Result<const Driver*> open(const Settings& settings);

  const DriverFunctions& call() const { return call_; }
  std::string version() const { return fmt::format("{}.{}", version_ / 1000, version_ % 1000 / 10); }  // "13.0"
  const std::string& path() const { return opened_.path; }
  const std::string& rule() const { return opened_.rule; }
  int devices() const { return devices_; }

  /// Success, or what a call answered, by the driver's own words. `doing` completes "CUDA failed while ...".
  Outcome check(cuda::CUresult result, std::string_view doing) const;
  /// CUDA does not work in a child that was forked after it had been initialised; says so before any call does worse.
  Outcome check_process() const;

 private:
  explicit Driver(OpenedLibrary opened) : opened_(std::move(opened)) {}
  Outcome load();
  Outcome initialise();

  OpenedLibrary opened_;
  DriverFunctions call_;
  int version_ = 0;
  int devices_ = 0;
  pid_t process_ = 0;
};

/// One device and what plans and launches must know of it.
struct CudaDevice {
  cuda::CUdevice handle = 0;
  int ordinal = 0;
  std::string name;
  int capability = 0;  // times ten: 90
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
};
Result<CudaDevice> cuda_device(const Driver& driver, int ordinal);

/// The context that work runs in: the caller's, if one is current for the device, else the device's primary one, which
/// the runtime API and every framework use. Kept until the end.
class CudaContext {
 public:
  static Result<std::unique_ptr<CudaContext>> open(const Driver& driver, int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const Driver& driver() const { return driver_; }
  const CudaDevice& device() const { return device_; }
  cuda::CUcontext handle() const { return handle_; }

  /// Success if the stream belongs to this context. Null is the legacy default stream, which would wait for all others.
  Outcome check_stream(cuda::CUstream stream) const;

 private:
  CudaContext(const Driver& driver, CudaDevice device) : driver_(driver), device_(std::move(device)) {}

  const Driver& driver_;
  CudaDevice device_;
  cuda::CUcontext handle_ = nullptr;
  bool retained_ = false;
};

/// Makes a context current for a scope, and the caller's current again afterwards.
class CurrentContext {
 public:
  static Result<CurrentContext> enter(const CudaContext& context);
  ~CurrentContext();
  CurrentContext(CurrentContext&& other) noexcept : driver_(std::exchange(other.driver_, nullptr)) {}
  CurrentContext& operator=(CurrentContext&&) = delete;

 private:
  explicit CurrentContext(const Driver* driver) : driver_(driver) {}
  const Driver* driver_;
};

}  // namespace stepfuse::runtime
