// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/explain.h"
#include "compiler/plan.h"
#include "ir/support/status.h"
#include "runtime/cache/entry.h"
#include "runtime/context.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// What the executor did, counted while it ran.
struct ExecutorReport {
  compiler::LaunchCounts last_step;  // launches of the last step() as they happened
  int64_t compiled_kernels = 0;      // generated because the process had none
  int64_t reused_kernels = 0;        // found in the process
  double compile_seconds = 0;        // wall time of prepare
  int64_t workspace_bytes = 0;
  // Devices with streams of their own, since prepare.
  int64_t graph_launches = 0;
  int64_t graphs = 0;        // made: the first, and one each time that the launches no longer fitted
  int64_t table_copies = 0;  // because tensors moved, gradients came or went, or step counts were set
  int64_t host_syncs = 0;    // the host waited for the device
};

/// Told of each kernel that is ready: `done` of `total`, the last one by name. By one thread at a time; must not throw.
using Progress = std::function<void(int64_t done, int64_t total, std::string_view kernel)>;

/// Pointers and scalars of one parameter for one step. `inputs` follows Graph::inputs(): null for scalars.
struct MemberBinding {
  bool active = false;  // has a gradient this step
  std::vector<void*> inputs;
  std::vector<double> hypers;  // by Graph::inputs() of kind Hyper, in order
  double step = 0;             // 1 for the first step
  std::vector<char> fresh;     // by Graph::inputs(): 1 while the state has never been written
  bool clear_states = false;   // the states are fresh, but their memory is not zero: the step zeroes it first
  bool counts_changed = true;  // step and fresh were set by the host since the last step, not by that step itself
};

/// What run() did: the step itself, or a record of it in a graph that the caller is capturing.
enum class StepEffect : uint8_t { Taken, Recorded };

/// Runs a plan on one device. prepare() compiles and allocates everything; run() allocates nothing of ours.
class Executor {
 public:
  virtual ~Executor() = default;
  /// One step on `stream`, null where there are no streams. The bindings' memory is used when the stream comes to it.
  virtual Result<StepEffect> run(std::span<const MemberBinding> parameters, void* stream) = 0;
  /// Brings changed memory and hyperparameters to steps that the caller has captured, before their next replay.
  virtual Outcome refresh(std::span<const MemberBinding>, void* /*stream*/) { return {}; }
  /// Whether steps may have been taken that the host has not seen; then read_steps() knows how many.
  virtual bool counts_steps() const { return false; }
  /// By parameter; those the plan leaves out stay as they are.
  virtual Outcome read_steps(std::span<int64_t>) { return {}; }
  virtual ExecutorReport report() const = 0;
  virtual compiler::BackendNotes notes() const = 0;
  /// Algorithms of products, chosen on this device, as the cache keeps them.
  virtual std::vector<Entry> product_entries() const { return {}; }
};

/// The executors for a plan on the host's CPU and for `interp`. `plan`, `parameters` and `context` outlive them.
Result<std::unique_ptr<Executor>> make_cpu_executor(const compiler::StepPlan& plan,
                                                    const std::vector<compiler::PlannedParameter>& parameters,
                                                    const std::string& target, int threads, const Context& context,
                                                    const Progress& progress = {});
Result<std::unique_ptr<Executor>> make_interpreter_executor(const compiler::StepPlan& plan,
                                                            const std::vector<compiler::PlannedParameter>& parameters);

}  // namespace stepfuse::runtime
