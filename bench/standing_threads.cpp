// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/standing_threads.h"

#include <atomic>
#include <thread>
#include <vector>

#include <immintrin.h>

namespace stepfuse::bench {

namespace {

int wait_for_change(const std::atomic<int>& value, int old) {
  for (int spin = 0; spin < 2000; ++spin) {
    if (const int current = value.load(std::memory_order_acquire); current != old) return current;
    _mm_pause();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

struct StandingThreads::Impl {
  int members = 1;
  std::atomic<int> round{0}, left{0};
  bool stop = false;
  int64_t count = 0, unit = 1;
  const std::function<void(int64_t, int64_t, int)>* part = nullptr;
  std::vector<std::thread> workers;

  int64_t boundary(int member) const { return member == members ? count : (count / unit) * member / members * unit; }

  void serve(int member) {
    for (int seen = 0;;) {
      seen = wait_for_change(round, seen);
      if (stop) return;
      (*part)(boundary(member), boundary(member + 1), member);
      if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) left.notify_one();
    }
  }
};

StandingThreads::StandingThreads(int threads) : impl_(std::make_unique<Impl>()) {
  impl_->members = threads;
  for (int member = 1; member < threads; ++member)
    impl_->workers.emplace_back([impl = impl_.get(), member] { impl->serve(member); });
}

StandingThreads::~StandingThreads() {
  impl_->stop = true;
  impl_->round.fetch_add(1, std::memory_order_release);
  impl_->round.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

int StandingThreads::threads() const { return impl_->members; }

void StandingThreads::run(int64_t count, int64_t unit, const std::function<void(int64_t, int64_t, int)>& part) {
  impl_->count = count;
  impl_->unit = unit;
  impl_->part = &part;
  impl_->left.store(static_cast<int>(impl_->workers.size()), std::memory_order_relaxed);
  impl_->round.fetch_add(1, std::memory_order_release);
  impl_->round.notify_all();
  part(0, impl_->boundary(1), 0);
  for (int left = impl_->left.load(std::memory_order_acquire); left != 0;) left = wait_for_change(impl_->left, left);
}

}  // namespace stepfuse::bench
