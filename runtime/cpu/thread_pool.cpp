// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "runtime/cpu/float_environment.h"
#include "runtime/cpu/omp_guard.h"

namespace stepfuse::runtime {

namespace {

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// Waits until `value` is no longer `old`: a short spin, since the next run of a step usually follows within
/// microseconds, then a futex.
int wait_for_change(const std::atomic<int>& value, int old) {
  constexpr int kSpins = 400;  // some 10 us
  for (int i = 0; i < kSpins; ++i) {
    if (const int now = value.load(std::memory_order_acquire); now != old) return now;
    relax();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

/// CPUs that the control group's quota pays for (cgroup v2), or 0 without a quota. Every level up to the root can set
/// one.
int cgroup_cpus() {
  std::ifstream membership("/proc/self/cgroup");
  std::string line;
  while (std::getline(membership, line) && !line.starts_with("0::/")) {
  }
  if (!line.starts_with("0::/")) return 0;
  double cpus = 0;
  for (std::filesystem::path group = line.substr(3);; group = group.parent_path()) {
    std::ifstream file("/sys/fs/cgroup" + group.string() + "/cpu.max");
    double quota = 0, period = 0;  // "max 100000" leaves quota unread
    if (file >> quota >> period && period > 0) cpus = cpus == 0 ? quota / period : std::min(cpus, quota / period);
    if (group == group.parent_path()) break;
  }
  return static_cast<int>(std::ceil(cpus));
}

int usable_cores() {
  cpu_set_t set;
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  if (const int paid = cgroup_cpus(); paid > 0) cores = std::min(cores, paid);
  return std::max(cores, 1);
}

struct Job {
  ThreadPool::Task task = nullptr;
  void* context = nullptr;
  int64_t count = 0;
};

/// floor(member * count / members) without overflow.
int64_t share_begin(int64_t count, int member, int members) {
  return count / members * member + count % members * member / members;
}

/// The runs that this thread is inside of, innermost first.
struct Frame {
  const void* pool;
  int member;
  const Frame* outer;
};
thread_local const Frame* innermost = nullptr;

class EnterFrame {
 public:
  EnterFrame(const void* pool, int member) : frame_{pool, member, innermost} { innermost = &frame_; }
  ~EnterFrame() { innermost = frame_.outer; }
  EnterFrame(const EnterFrame&) = delete;
  EnterFrame& operator=(const EnterFrame&) = delete;

 private:
  Frame frame_;
};

const Frame* find_frame(const void* pool) {
  const Frame* frame = innermost;
  while (frame != nullptr && frame->pool != pool) frame = frame->outer;
  return frame;
}

void run_share(const Job& job, const void* pool, int member, int members) noexcept {
  const EnterFrame frame(pool, member);
  const int64_t end = share_begin(job.count, member + 1, members);
  for (int64_t i = share_begin(job.count, member, members); i < end; ++i) job.task(job.context, i, member);
}

/// The threads of one process. After a fork the child has the object but not the threads.
class Team {
 public:
  Team(const void* pool, int members)
      : pool_(pool), members_(members), process_(getpid()), shares_(static_cast<size_t>(members)) {
    workers_.reserve(static_cast<size_t>(members - 1));
    try {
      for (int member = 1; member < members; ++member) workers_.emplace_back([this, member] { serve(member); });
    } catch (const std::system_error&) {
      // No more threads to be had: run() does the missing members' shares as it does those of late ones.
    }
  }

  ~Team() {
    stop_ = true;
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  bool of_this_process() const { return process_ == getpid(); }

  void run(const Job& job) {
    const std::lock_guard<std::mutex> one_run_at_a_time(busy_);
    if (job.count == 1) return run_share(job, pool_, members_ - 1, members_);  // the only share that is not empty
    job_ = job;
    pending_.store(members_ - 1, std::memory_order_relaxed);
    for (int member = 1; member < members_; ++member) open(member).store(true, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    run_share(job, pool_, 0, members_);
    // A thread that has not come by now may be waiting for a core. Its share is done here, which keeps short runs short
    // on a busy machine; a thread that comes too late finds its share closed.
    for (int member = members_ - 1; member > 0; --member) take_share(member);
    for (int left = pending_.load(std::memory_order_acquire); left != 0;) left = wait_for_change(pending_, left);
  }

 private:
  void serve(int member) {
    omp_set_num_threads(1);
    for (int seen = 0;;) {
      seen = wait_for_change(generation_, seen);
      if (stop_) return;
      const FloatEnvironment environment;
      take_share(member);
    }
  }

  std::atomic<bool>& open(int member) { return shares_[static_cast<size_t>(member)].open; }

  /// Runs the member's share unless somebody has: whoever closes it may read the job.
  void take_share(int member) {
    if (!open(member).exchange(false, std::memory_order_acq_rel)) return;
    run_share(job_, pool_, member, members_);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }

  /// Whether a member's share of the current run is still to be taken.
  struct alignas(64) Share {
    std::atomic<bool> open{false};
  };

  const void* pool_;
  const int members_;
  const pid_t process_;
  std::mutex busy_;
  Job job_;
  bool stop_ = false;
  alignas(64) std::atomic<int> generation_{0};
  alignas(64) std::atomic<int> pending_{0};
  std::vector<Share> shares_;  // by member
  std::vector<std::thread> workers_;
};

}  // namespace

struct ThreadPool::Impl {
  int threads = 1;
  std::atomic<Team*> team{nullptr};

  /// The team of this process. A parent's team is left alone, for its threads and whoever held its lock are not here.
  Team& current_team() {
    Team* known = team.load(std::memory_order_acquire);
    if (known != nullptr && known->of_this_process()) return *known;
    auto fresh = std::make_unique<Team>(this, threads);
    if (team.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
    return *known;
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  impl_->threads = threads > 0 ? threads : usable_cores();
  impl_->current_team();
}

ThreadPool::~ThreadPool() {
  Team* team = impl_->team.load(std::memory_order_acquire);
  if (team->of_this_process()) delete team;
}

int ThreadPool::threads() const { return impl_->threads; }

void ThreadPool::run(int64_t count, Task task, void* context) {
  if (count <= 0) return;
  if (const Frame* frame = find_frame(impl_.get())) {  // called from a task: this member does it all
    for (int64_t i = 0; i < count; ++i) task(context, i, frame->member);
    return;
  }
  const FloatEnvironment environment;
  const OmpSingleThread single;
  impl_->current_team().run({task, context, count});
}

}  // namespace stepfuse::runtime
