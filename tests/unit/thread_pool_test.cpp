// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace stepfuse::runtime {
namespace {

struct Visits {
  explicit Visits(int64_t count) : times(static_cast<size_t>(count)), member(static_cast<size_t>(count), -1) {}
  static void visit(void* self, int64_t index, int thread) {
    auto* visits = static_cast<Visits*>(self);
    visits->times[static_cast<size_t>(index)]++;
    visits->member[static_cast<size_t>(index)] = thread;
  }
  std::vector<int> times, member;
};

TEST(ThreadPool, EveryIndexOnceByAMember) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t count : {0, 1, 2, 3, 5, 64, 1001}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, " << count << " indices");
      Visits visits(count);
      pool.run(count, Visits::visit, &visits);
      for (size_t i = 0; i < visits.times.size(); ++i) {
        EXPECT_EQ(visits.times[i], 1) << i;
        EXPECT_GE(visits.member[i], 0) << i;
        EXPECT_LT(visits.member[i], threads) << i;
      }
    }
  }
}

/// Scratch memory goes by the number of the thread.
TEST(ThreadPool, NoTwoTasksOfOneThreadAtOnce) {
  ThreadPool pool(4);
  struct Data {
    std::atomic<int> inside[4] = {};
    std::atomic<int> twice{0}, done{0}, spins{0};
  } data;
  for (int round = 0; round < 300; ++round) {
    pool.run(
        64,
        [](void* context, int64_t, int thread) {
          auto* d = static_cast<Data*>(context);
          if (d->inside[thread].exchange(1) != 0) d->twice++;
          for (int spin = 0; spin < 50; ++spin) d->spins++;
          d->inside[thread] = 0;
          d->done++;
        },
        &data);
  }
  EXPECT_EQ(data.twice, 0);
  EXPECT_EQ(data.done, 300 * 64);
}

/// The members of an uneven run share what the slowest has left: here one index takes as long as all others together.
TEST(ThreadPool, ASlowTaskDoesNotHoldUpTheOthers) {
  ThreadPool pool(2);
  struct Data {
    std::atomic<int> others{0};
    int seen_by_slow = 0;
  } data;
  pool.run(
      10,
      [](void* context, int64_t index, int) {
        auto* d = static_cast<Data*>(context);
        if (index != 0) {
          d->others++;
          return;
        }
        for (int wait = 0; wait < 5000 && d->others < 9; ++wait)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        d->seen_by_slow = d->others;
      },
      &data);
  EXPECT_EQ(data.seen_by_slow, 9);
}

TEST(ThreadPool, ZeroMeansTheCoresOfThisProcess) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(ThreadPool(0).threads(), 1);
  EXPECT_LE(ThreadPool(0).threads(), CPU_COUNT(&before));
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(ThreadPool(0).threads(), 1);
  sched_setaffinity(0, sizeof before, &before);
}

TEST(ThreadPool, OneRunSeesWhatTheLastWrote) {
  ThreadPool pool(4);
  struct Data {
    std::vector<int64_t> a = std::vector<int64_t>(97, 0), b = a;
  } data;
  for (int round = 0; round < 500; ++round) {  // every index reads what another member wrote in the run before
    pool.run(
        97,
        [](void* context, int64_t i, int) {
          auto* d = static_cast<Data*>(context);
          d->b[static_cast<size_t>(i)] = d->a[static_cast<size_t>(96 - i)] + i;
        },
        &data);
    pool.run(
        97,
        [](void* context, int64_t i, int) {
          auto* d = static_cast<Data*>(context);
          d->a[static_cast<size_t>(i)] = d->b[static_cast<size_t>(96 - i)];
        },
        &data);
  }
  for (int64_t i = 0; i < 97; ++i) EXPECT_EQ(data.a[static_cast<size_t>(i)], 500 * (96 - i));
}

TEST(ThreadPool, NestedRunStaysOnItsMember) {
  ThreadPool pool(3);
  struct Nested {
    ThreadPool* pool;
    std::atomic<int> wrong{0}, inner{0};
    int outer[3] = {-1, -1, -1};
  } nested;
  nested.pool = &pool;
  pool.run(
      3,
      [](void* context, int64_t i, int thread) {
        auto* n = static_cast<Nested*>(context);
        struct Inner {
          Nested* nested;
          int thread;
        } inner{n, thread};
        n->outer[i] = thread;
        n->pool->run(
            10,
            [](void* c, int64_t, int inner_thread) {
              auto* in = static_cast<Inner*>(c);
              if (inner_thread != in->thread) in->nested->wrong++;
              in->nested->inner++;
            },
            &inner);
      },
      &nested);
  EXPECT_EQ(nested.wrong, 0);
  EXPECT_EQ(nested.inner, 30);
}

TEST(ThreadPool, TwoCallersTakeTurns) {
  ThreadPool pool(2);
  const auto caller = [&pool] {
    for (int i = 0; i < 200; ++i) {
      Visits visits(50);
      pool.run(50, Visits::visit, &visits);
      ASSERT_EQ(std::accumulate(visits.times.begin(), visits.times.end(), 0), 50);
    }
  };
  std::thread other(caller);
  caller();
  other.join();
}

TEST(ThreadPool, OpenMpIsSingleInsideAndUntouchedOutside) {
  ThreadPool pool(3);
  omp_set_num_threads(5);
  std::atomic<int> wrong{0};
  pool.run(
      30,
      [](void* context, int64_t, int) {
        if (omp_get_max_threads() != 1) ++*static_cast<std::atomic<int>*>(context);
      },
      &wrong);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(omp_get_max_threads(), 5);
}

#if defined(__x86_64__)
TEST(ThreadPool, FloatEnvironmentIsOursInsideAndRestored) {
  ThreadPool pool(3);
  const unsigned before = _mm_getcsr();
  const unsigned flushing = 0x1f80 | 0x8040 | 0x6000;  // flush to zero, denormals are zero, round towards zero
  _mm_setcsr(flushing);
  std::atomic<int> wrong{0};
  pool.run(
      30,
      [](void* context, int64_t, int) {
        if ((_mm_getcsr() & ~0x3fu) != 0x1f80) ++*static_cast<std::atomic<int>*>(context);
      },
      &wrong);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(after, flushing);
}
#endif

TEST(ThreadPool, ForkedChildGetsItsOwnTeam) {
  ThreadPool pool(3);
  Visits warm(10);
  pool.run(10, Visits::visit, &warm);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a hang must not outlive the test
    Visits visits(300);
    for (int i = 0; i < 20; ++i) pool.run(300, Visits::visit, &visits);
    const bool good = std::accumulate(visits.times.begin(), visits.times.end(), 0) == 6000;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "child's status " << status;
  Visits visits(10);
  pool.run(10, Visits::visit, &visits);
  EXPECT_EQ(std::accumulate(visits.times.begin(), visits.times.end(), 0), 10);
}

TEST(ThreadPool, ForkedChildDestroysThePoolWithoutHanging) {
  auto pool = std::make_unique<ThreadPool>(3);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    pool.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace stepfuse::runtime
