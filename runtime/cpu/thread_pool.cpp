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
#include "runtime/cpu/gemm_providers.h"
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

/// The threads of one process. After a fork the child has the object but not the threads.
class Team {
 public:
  Team(const void* pool, int members)
      : pool_(pool), members_(members), process_(getpid()), shares_(static_cast<size_t>(members)) {
    workers_.reserve(static_cast<size_t>(members - 1));
    pending_ = members - 1;
    try {
      for (int member = 1; member < members; ++member) workers_.emplace_back([this, member] { serve(member); });
    } catch (const std::system_error&) {
      // No more threads to be had: those that there are do the missing members' shares.
    }
    started_ = static_cast<int>(workers_.size());
    pending_ -= members - 1 - started_;
    // From here on the threads allocate nothing.
    for (int left = pending_.load(std::memory_order_acquire); left != 0;) left = wait_for_change(pending_, left);
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
    job_ = job;
    for (int member = 0; member < members_; ++member)
      share(member).next.store(share_begin(job.count, member, members_), std::memory_order_relaxed);
    if (job.count == 1) return take_part(0);  // not worth waking anybody
    pending_.store(started_, std::memory_order_relaxed);
    for (int member = 1; member <= started_; ++member) share(member).invited.store(true, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    take_part(0);
    // Every index is taken. A thread that has not come by now, waiting for a core perhaps, is not waited for.
    for (int member = 1; member <= started_; ++member)
      if (accept(member)) pending_.fetch_sub(1, std::memory_order_acq_rel);
    for (int left = pending_.load(std::memory_order_acquire); left != 0;) left = wait_for_change(pending_, left);
  }

 private:
  /// What a member starts with.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};      // the first index that nobody has taken
    std::atomic<bool> invited{false};  // to a run it has not joined yet
  };

  Share& share(int member) { return shares_[static_cast<size_t>(member)]; }

  /// Whoever turns the invitation down or accepts it, once, decides whether this member may look at the job.
  bool accept(int member) { return share(member).invited.exchange(false, std::memory_order_acq_rel); }

  void serve(int member) {
    omp_set_num_threads(1);
    prepare_thread_for_openblas();
    leave();
    for (int seen = 0;;) {
      seen = wait_for_change(generation_, seen);
      if (stop_) return;
      if (!accept(member)) continue;
      const FloatEnvironment environment;
      take_part(member);
      leave();
    }
  }

  void leave() {
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }

  /// The member's own share from the front, then what is left of the others'.
  void take_part(int member) noexcept {
    const EnterFrame frame(pool_, member);
    for (int k = 0; k < members_; ++k) {
      const int owner = (member + k) % members_;
      const int64_t end = share_begin(job_.count, owner + 1, members_);
      for (int64_t i = take(owner); i < end; i = take(owner)) job_.task(job_.context, i, member);
    }
  }

  int64_t take(int owner) { return share(owner).next.fetch_add(1, std::memory_order_relaxed); }

  const void* pool_;
  const int members_;
  const pid_t process_;
  std::mutex busy_;
  Job job_;
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int> generation_{0};
  alignas(64) std::atomic<int> pending_{0};
  std::vector<Share> shares_;  // by member
  int started_ = 0;            // threads, for members 1 to started_
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
