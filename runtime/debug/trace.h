// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/log.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace stepfuse::runtime {

/// What happened when, for chrome://tracing and Perfetto. One trace per file and process: contexts with the same
/// setting share it. Room for kCapacity events is reserved at the start (the system gives it as it is used); the first
/// ones are kept, and the file says how many came later. It is written beside and renamed, so that it is always
/// complete: when a context ends and when the process exits. A forked child records nothing.
class Trace {
 public:
  static constexpr size_t kCapacity = size_t{1} << 20;

  /// Null, with a warning, when the file's folder cannot be written. "%p" in the path becomes the process's number, so
  /// that the processes of one job do not overwrite each other's.
  static Trace* open(const std::string& path, const Log& log);

  using Clock = std::chrono::steady_clock;
  /// Thread-safe; allocates nothing. `category` and `result` live forever; `subject` is copied.
  void record(const char* category, std::string_view subject, const char* result, Clock::time_point begin,
              Clock::time_point end);

  /// Writes what has been recorded so far, if that is more than last time.
  void write(const Log& log);

  explicit Trace(std::string path);

 private:
  struct Event;
  struct FreeEvents {
    void operator()(Event* events) const;
  };

  std::string json(size_t count) const;

  std::string path_;
  int process_;
  Clock::time_point start_ = Clock::now();
  std::unique_ptr<Event, FreeEvents> events_;
  std::atomic<size_t> count_{0};
  std::mutex writing_;
  size_t written_ = SIZE_MAX;  // events in the file; at first there is none
};

/// The time from here to the end of the scope. Without a trace it costs one test of a pointer.
class TraceScope {
 public:
  TraceScope(Trace* trace, const char* category, std::string_view subject = {}) : trace_(trace) {
    if (trace_ == nullptr) return;
    category_ = category;
    subject_ = subject;
    begin_ = Trace::Clock::now();
  }
  ~TraceScope() {
    if (trace_ != nullptr) trace_->record(category_, subject_, result_, begin_, Trace::Clock::now());
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

  /// How it ended, such as "hit"; a literal.
  void result(const char* text) { result_ = text; }

 private:
  Trace* trace_;
  const char* category_ = nullptr;
  const char* result_ = nullptr;
  std::string_view subject_;  // outlives the scope
  Trace::Clock::time_point begin_;
};

}  // namespace stepfuse::runtime
