// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/driver.h"

#include <memory>
#include <vector>

namespace stepfuse::tests {

/// A program that uses a device by itself: streams of the primary context, which is current while this lives, and
/// graphs that it captures. What fails throws std::runtime_error.
class Caller {
 public:
  explicit Caller(int device = 0);
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  const runtime::DriverFunctions& call() const { return driver_->call(); }
  const runtime::CudaContext& context() const { return *context_; }
  /// A new one, which lives as long as this.
  cuda::CUstream make_stream();
  void synchronize(cuda::CUstream stream) const;

  void begin_capture(cuda::CUstream stream) const;
  /// The captured graph, ready to be launched; lives as long as this.
  cuda::CUgraphExec end_capture(cuda::CUstream stream);
  void launch(cuda::CUgraphExec graph, cuda::CUstream stream, int times = 1) const;

  void check(cuda::CUresult result, const char* doing) const;

 private:
  const runtime::Driver* driver_;
  std::unique_ptr<runtime::CudaContext> context_;
  std::vector<cuda::CUstream> streams_;
  std::vector<cuda::CUgraph> graphs_;
  std::vector<cuda::CUgraphExec> execs_;
};

}  // namespace stepfuse::tests
