// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/gpu/report.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/lt_product.h"
#include "stepfuse/stepfuse.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stepfuse::gpu_check {

class Gpu;

/// Device memory, freed with its owner.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Gpu& gpu, int64_t bytes);
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  uint64_t address() const { return address_; }
  void* at(int64_t byte) const { return reinterpret_cast<void*>(address_ + static_cast<uint64_t>(byte)); }  // NOLINT
  int64_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }
  const Gpu* gpu_ = nullptr;
  uint64_t address_ = 0;
  int64_t bytes_ = 0;
};

using Work = std::function<void()>;

/// The first device, with its context current and a stream of our own. What fails throws std::runtime_error.
class Gpu {
 public:
  static Result<std::unique_ptr<Gpu>> open();
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const runtime::Settings& settings() const { return settings_; }
  const runtime::Driver& driver() const { return *driver_; }
  const runtime::DriverFunctions& call() const { return driver_->call(); }
  const runtime::CudaDevice& device() const { return context_->device(); }
  cuda::CUstream stream() const { return stream_; }
  /// Whether the driver is the one of tests/vgpu.
  bool is_virtual() const { return virtual_; }
  /// cuBLASLt; throws where there is none.
  const runtime::Lt& lt() const;

  void must(cuda::CUresult result, const char* doing) const;
  void wait() const { must(call().cuStreamSynchronize(stream_), "waiting for the stream"); }

  /// Device seconds from the first to the last of what `work` queues on stream(), by events.
  double seconds(const Work& work) const;
  /// Every round runs every work once, after one round that does not count: times of one round are neighbours.
  std::vector<Samples> interleave(int rounds, const std::vector<Work>& works) const;

  /// Reproducible values of a normal distribution times `scale`; never zeros, which make products faster.
  void fill(const Buffer& buffer, ElementType type, double scale) const;
  void upload(const Buffer& buffer, const void* data, size_t bytes) const;

 private:
  Gpu() = default;
  Outcome start();

  runtime::Settings settings_;
  const runtime::Driver* driver_ = nullptr;
  std::unique_ptr<runtime::CudaContext> context_;
  std::optional<runtime::CurrentContext> scope_;
  cuda::CUstream stream_ = nullptr;
  cuda::CUevent begin_ = nullptr, end_ = nullptr;
  mutable std::unique_ptr<const runtime::Lt> lt_;
  bool virtual_ = false;
};

/// Work as a graph, so that launching it costs the host next to nothing.
class Graph {
 public:
  Graph(const Gpu& gpu, const Work& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch() const { gpu_.must(gpu_.call().cuGraphLaunch(exec_, gpu_.stream()), "launching a graph"); }

 private:
  const Gpu& gpu_;
  cuda::CUgraphExec exec_ = nullptr;
};

/// What every part is given: the device, the report, and how much to do.
struct Bench {
  const Gpu& gpu;
  Report& report;
  int rounds;
  bool is_short;

  /// `full` on a real device, `little` where a CPU stands in for it.
  template <class T>
  T size(T full, T little) const {
    return is_short ? little : full;
  }
};

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

}  // namespace stepfuse::gpu_check
