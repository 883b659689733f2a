// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <sched.h>

namespace stepfuse::runtime {

namespace {

int64_t usable_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

struct Work {
  int64_t count;
  const std::function<Outcome(int64_t)>& work;
  std::atomic<int64_t> next{0};
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::optional<std::pair<int64_t, Status>> failure;
  std::exception_ptr thrown;

  void fail_at(int64_t index, Status status) {
    const std::scoped_lock lock(mutex);
    stopped = true;
    if (!failure || index < failure->first) failure.emplace(index, std::move(status));
  }

  void run() {
    for (int64_t index = next++; index < count && !stopped; index = next++) {
      try {
        if (Outcome outcome = work(index); !outcome) fail_at(index, std::move(outcome.error()));
      } catch (...) {
        const std::scoped_lock lock(mutex);
        stopped = true;
        thrown = std::current_exception();
      }
    }
  }
};

}  // namespace

Outcome parallel_for(int64_t count, int64_t threads, const std::function<Outcome(int64_t)>& work) {
  Work state{count, work, {}, {}, {}, {}, {}};
  {
    std::vector<std::jthread> others;
    for (int64_t t = std::min(count, threads == 0 ? usable_cores() : threads); t > 1; --t)
      others.emplace_back([&state] { state.run(); });
    state.run();
  }
  if (state.thrown) std::rethrow_exception(state.thrown);
  if (state.failure) return fail(std::move(state.failure->second));
  return {};
}

}  // namespace stepfuse::runtime
