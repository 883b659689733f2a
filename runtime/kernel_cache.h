// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cache/single_flight.h"
#include "runtime/cache/store.h"
#include "runtime/context.h"
#include "runtime/kernel.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// One kernel that a plan needs, and how its backend makes it. Used by one thread, but several may make kernels at
/// once.
class KernelMaker {
 public:
  virtual ~KernelMaker() = default;
  virtual std::string_view name() const = 0;  // of the kernel, for messages
  /// What names the kernel: this library, its target, mode and text. No path, no compiler's version.
  virtual KeyFields key_fields() const = 0;
  /// A kernel of the user's in its place, null if there is none. `made` says whether this call compiled it.
  virtual Result<std::shared_ptr<const Kernel>> edited(bool& made) const = 0;
  /// Why an entry with this metadata is not what compile() would make.
  virtual std::optional<std::string> made_otherwise(const std::string& metadata) const = 0;
  struct Compiled {
    std::string metadata;
    std::vector<std::byte> payload;
  };
  virtual Result<Compiled> compile() const = 0;
  /// InvalidData: the entry is damaged. Environment, Io: something is wrong with the process.
  virtual Result<std::shared_ptr<const Kernel>> load(const Entry& entry) const = 0;
};

using KernelMakers = std::vector<std::unique_ptr<KernelMaker>>;

enum class KernelOrigin : uint8_t { Memory, Disk, Layer, Compiled };

struct FoundKernel {
  std::shared_ptr<const Kernel> kernel;
  KernelOrigin origin = KernelOrigin::Memory;
};

/// Kernels by their complete text and target, so that shapes, parameters and optimizers share code: in memory, then on
/// disk, then compiled. Threads that want one kernel at once compile it once. Thread-safe.
class KernelCache {
 public:
  explicit KernelCache(StoreOptions options) : store_(std::move(options)) {}

  /// Contexts with the same settings (and the same HOME) share one cache; it lives as long as the process.
  static std::shared_ptr<KernelCache> open(const Settings& settings);

  Result<FoundKernel> find_or_compile(const Context& context, const KernelMaker& maker);

  CacheMetrics metrics() { return store_.counters().snapshot(); }
  Store& store() { return store_; }

  static int64_t compiled_in_process();

 private:
  using Pointer = std::shared_ptr<const Kernel>;
  struct Wanted {
    const Context& context;
    const KernelMaker& maker;
    const KeyFields& fields;
    const Key& key;
  };

  Result<Pointer> make(const Wanted& wanted, KernelOrigin& origin);
  Result<Pointer> compile(const Wanted& wanted, bool replace);
  tl::unexpected<Status> refuse(const Wanted& wanted, const std::string& why);

  /// Bounds the compilations that run at once.
  class Gate {
   public:
    void enter(int64_t most);  // 0: without bound
    void leave();

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int64_t running_ = 0;
  };

  static constexpr size_t kMostIdleKernels = 4096;

  Store store_;
  SingleFlight<Kernel> kernels_{kMostIdleKernels};
  Gate gate_;
};

/// The library's own part of every key.
std::string library_build();

}  // namespace stepfuse::runtime
