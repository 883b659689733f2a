// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/counts.h"
#include "runtime/cuda/step_products.h"

#include <optional>
#include <variant>
#include <vector>

namespace stepfuse::runtime {

/// A launch of a kernel that walks chunks and rows.
struct ChunkLaunch {
  cuda::CUfunction function = nullptr;
  unsigned blocks = 0;
  DeviceAddress chunks = 0;
  unsigned chunk_count = 0;
  DeviceAddress rows = 0;

  Outcome enqueue(const Driver& driver, cuda::CUstream stream) const;
};

/// The first launch of a step.
struct PrologueLaunch {
  cuda::CUfunction function = nullptr;
  unsigned blocks = 0;
  DeviceAddress rows = 0;
  unsigned row_count = 0;
  DeviceAddress programs = 0, states = 0, active = 0, skip = 0;
  DeviceAddress more = 0;  // 0: by value
  codegen::CudaHypers hypers{};

  Outcome enqueue(const Driver& driver, cuda::CUstream stream);
  /// The node of a captured prologue gets the present arguments.
  Outcome update(const Driver& driver, cuda::CUgraphExec graph, cuda::CUgraphNode node);

 private:
  std::array<void*, 8> arguments() { return {&rows, &row_count, &programs, &states, &active, &skip, &more, &hypers}; }
};

using AnyLaunch = std::variant<ChunkLaunch, ProductRun>;

/// All launches of a step but the prologue: what each branch runs, in order.
struct StepLaunches {
  std::vector<std::vector<AnyLaunch>> branches;
  compiler::LaunchCounts counts;
};

struct LaunchContext {
  const std::vector<CudaGroup>& groups;
  const StepMemory& memory;
  DeviceAddress base;
  StepProducts* products;  // null: the plan has none
  const std::vector<CudaPointers>& pointers;
  const ScalarSets& sets;
};
/// After the tables have been filled.
Result<StepLaunches> list_launches(const LaunchContext& context);

/// Streams and events for the branches of a step.
class BranchStreams {
 public:
  static Result<BranchStreams> create(const Driver& driver, size_t branches);
  BranchStreams() = default;
  BranchStreams(BranchStreams&& other) noexcept { swap(other); }
  BranchStreams& operator=(BranchStreams&& other) noexcept {
    swap(other);
    return *this;
  }
  ~BranchStreams();

  /// Queues the step on `stream`: the prologue, then every branch, all of which are waited for. `after_prologue` is
  /// called when that is queued, before anything else is.
  Outcome enqueue(PrologueLaunch& prologue, const StepLaunches& launches, cuda::CUstream stream,
                  const std::function<Outcome()>& after_prologue) const;

 private:
  void swap(BranchStreams& other) noexcept;
  Outcome enqueue_branch(const std::vector<AnyLaunch>& launches, cuda::CUstream stream) const;

  const Driver* driver_ = nullptr;
  std::vector<cuda::CUstream> streams_;  // of all branches but the first, which runs on the caller's
  cuda::CUevent fork_ = nullptr;
  std::vector<cuda::CUevent> joins_;
};

/// A step as one CUDA graph.
class StepGraph {
 public:
  /// Captured on `stream`, on which nothing else is queued.
  static Result<StepGraph> capture(const Driver& driver, const BranchStreams& streams, PrologueLaunch& prologue,
                                   const StepLaunches& launches, cuda::CUstream stream);
  StepGraph() = default;
  StepGraph(StepGraph&& other) noexcept { swap(other); }
  StepGraph& operator=(StepGraph&& other) noexcept {
    swap(other);
    return *this;
  }
  ~StepGraph();

  explicit operator bool() const { return exec_ != nullptr; }
  Outcome set_hypers(PrologueLaunch& prologue) const { return prologue.update(*driver_, exec_, prologue_); }
  Outcome launch(cuda::CUstream stream) const;

 private:
  void swap(StepGraph& other) noexcept;

  const Driver* driver_ = nullptr;
  cuda::CUgraph graph_ = nullptr;
  cuda::CUgraphExec exec_ = nullptr;
  cuda::CUgraphNode prologue_ = nullptr;
};

}  // namespace stepfuse::runtime
