// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace stepfuse::runtime {

/// What a kernel cache did since the process began.
struct CacheMetrics {
  int64_t memory_hits = 0;  // kernels the process had
  int64_t disk_hits = 0;    // from the live folder
  int64_t layer_hits = 0;   // from a read-only folder
  int64_t misses = 0;       // looked for on disk in vain
  int64_t compiled = 0;
  int64_t published = 0;   // entries written, both kinds
  int64_t shape_hits = 0;  // shape entries that were there
  int64_t damaged = 0;     // entries with wrong content
  int64_t io_errors = 0;   // system calls that failed; each cost a miss or a file not written
  int64_t evicted = 0;
  int64_t sweeps = 0;  // scans of the whole folder
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  double compile_seconds = 0;
  double load_seconds = 0;  // reading, checking and mapping kernels from disk
};

/// The same numbers while threads count.
struct CacheCounters {
  std::atomic<int64_t> memory_hits{0}, disk_hits{0}, layer_hits{0}, misses{0}, compiled{0}, published{0}, shape_hits{0},
      damaged{0}, io_errors{0}, evicted{0}, sweeps{0}, bytes_read{0}, bytes_written{0}, compile_ns{0}, load_ns{0};

  CacheMetrics snapshot() const {
    constexpr double kNano = 1e-9;
    return {memory_hits,
            disk_hits,
            layer_hits,
            misses,
            compiled,
            published,
            shape_hits,
            damaged,
            io_errors,
            evicted,
            sweeps,
            bytes_read,
            bytes_written,
            static_cast<double>(compile_ns) * kNano,
            static_cast<double>(load_ns) * kNano};
  }
};

/// Adds the time of its life to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<int64_t>& nanoseconds) : total_(nanoseconds) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { total_ += nanoseconds(); }
  int64_t nanoseconds() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::atomic<int64_t>& total_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace stepfuse::runtime
