// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace stepfuse::bench {

/// The simplest way to share a loop: one standing thread per further core, each with an equal, contiguous part. It
/// spins for some microseconds before it sleeps, so that it is quick while it is used and out of the way afterwards.
class StandingThreads {
 public:
  explicit StandingThreads(int threads);
  ~StandingThreads();
  StandingThreads(const StandingThreads&) = delete;
  StandingThreads& operator=(const StandingThreads&) = delete;

  int threads() const;
  /// Calls part(begin, end, thread) for the parts of [0, count); boundaries are multiples of `unit`.
  void run(int64_t count, int64_t unit, const std::function<void(int64_t, int64_t, int)>& part);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepfuse::bench
