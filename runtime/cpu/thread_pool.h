// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace stepfuse::runtime {

/// A fixed team of threads; the caller is its first member. No queue, no allocation in run(). Survives fork: the
/// child's first run() starts a new team. MXCSR is set to round-to-nearest with denormals honoured while a task runs
/// and restored afterwards; OpenMP's thread count is 1 inside our own threads.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // >= 1; 0: one per core this process may use
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  /// Calls task(context, index, thread) for every index in [0, count), each exactly once; thread < threads(), and no
  /// two calls with one thread run at the same time. Member t starts with the indices t*count/threads ..
  /// (t+1)*count/threads, so that it meets its own data from run to run; a member that is done helps the others, so
  /// that none waits for a thread without a core. Returns when all are done. Everything a task wrote is visible to the
  /// caller and to the tasks of the next run.
  using Task = void (*)(void* context, int64_t index, int thread);
  void run(int64_t count, Task task, void* context);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfuse::runtime
