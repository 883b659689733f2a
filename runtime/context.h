// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/log.h"
#include "ir/support/status.h"
#include "runtime/config/settings.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace stepfuse::runtime {

class KernelCache;
class Trace;

/// Memory for states and workspace. Both functions may be called by several threads at once and must not throw.
struct Allocator {
  /// At least `bytes` (> 0) at a multiple of `alignment` (a power of two); null if there is none.
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;
  void (*release)(void* user, void* memory, size_t bytes) = nullptr;
  void* user = nullptr;
};

/// Memory on CUDA devices, from a framework's own pool. Both null: the driver's.
struct DeviceAllocator {
  /// At least `bytes` (> 0) of the device, at a multiple of 256; null if there is none. Used by work of any stream
  /// until it is released, when no work uses it any more.
  void* (*allocate)(void* user, size_t bytes, int device, void* stream) = nullptr;
  void (*release)(void* user, void* memory, size_t bytes, int device, void* stream) = nullptr;
  void* user = nullptr;
};

/// The C library's aligned memory.
Allocator default_allocator();

/// What optimizers of one program share: settings, log, memory, kernels. Immutable after creation, thread-safe.
class Context {
 public:
  struct Options {
    std::vector<SettingSource> flags;
    std::vector<SettingSource> file;
    std::vector<std::string> environment = Settings::process_environment();
    Log::Sink log;
    Allocator allocator = default_allocator();
    DeviceAllocator device_allocator;
  };
  static Result<std::shared_ptr<const Context>> create(const Options& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  /// The context of a program that asked for nothing: the environment over the defaults.
  static Result<std::shared_ptr<const Context>> of_environment() { return create(Options()); }

  const Settings& settings() const { return settings_; }
  const Log& log() const { return log_; }
  const Allocator& allocator() const { return allocator_; }
  const DeviceAllocator& device_allocator() const { return device_allocator_; }
  KernelCache& kernels() const { return *kernels_; }
  Trace* trace() const { return trace_; }  // null: off

 private:
  Context(Settings settings, const Options& options);

  Settings settings_;
  Log log_;
  Allocator allocator_;
  DeviceAllocator device_allocator_;
  std::shared_ptr<KernelCache> kernels_;
  Trace* trace_;
};

}  // namespace stepfuse::runtime
