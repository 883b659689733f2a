// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug/trace.h"

#include "runtime/debug/text_files.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <vector>

#include <nlohmann/json.hpp>
#include <unistd.h>

namespace stepfuse::runtime {

/// Plain memory that starts as zeros, so that untouched pages cost nothing.
struct Trace::Event {
  static constexpr size_t kSubject = 72;

  std::atomic<bool> complete;
  int32_t thread;
  int64_t begin_ns, duration_ns;  // since the start of the trace
  const char* category;
  const char* result;
  char subject[kSubject];  // cut where it is longer; ends with a zero

  void append(std::string& out, int process) const;
};

namespace {

/// All traces of the process, by file. Never destroyed: other threads may still record while the process exits.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Trace>> traces;
};
Registry& registry() {
  static auto* all = new Registry;
  return *all;
}

void write_all_traces() {
  const Log log;
  const std::lock_guard lock(registry().mutex);
  for (const auto& [path, trace] : registry().traces) trace->write(log);
}

std::string with_process_number(std::string path) {
  for (size_t at = 0; (at = path.find("%p", at)) != std::string::npos;) {
    const std::string number = std::to_string(::getpid());
    path.replace(at, 2, number);
    at += number.size();
  }
  return path;
}

/// As a JSON string; a subject may have been cut within a character.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void Trace::Event::append(std::string& out, int process) const {
  const std::string_view what = subject;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, R"({{"name": {}, "cat": "{}", "ph": "X", )",
                 what.empty() ? fmt::format("\"{}\"", category) : json_text(fmt::format("{} {}", category, what)),
                 category);
  // Microseconds, exact to the nanosecond.
  fmt::format_to(to, R"("ts": {}.{:03}, "dur": {}.{:03}, "pid": {}, "tid": {}, "args": {{)", begin_ns / 1000,
                 begin_ns % 1000, duration_ns / 1000, duration_ns % 1000, process, thread);
  if (!what.empty()) fmt::format_to(to, R"("subject": {})", json_text(what));
  if (result != nullptr) fmt::format_to(to, R"({}"result": "{}")", what.empty() ? "" : ", ", result);
  out += "}}";
}

void Trace::FreeEvents::operator()(Event* events) const { ::munmap(events, kCapacity * sizeof(Event)); }

Trace::Trace(std::string path) : path_(std::move(path)), process_(::getpid()) {
  void* memory = ::mmap(nullptr, kCapacity * sizeof(Event), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) events_.reset(static_cast<Event*>(memory));
}

Trace* Trace::open(const std::string& path, const Log& log) {
  const std::string file = with_process_number(path);
  const std::lock_guard lock(registry().mutex);
  std::unique_ptr<Trace>& trace = registry().traces[file];
  if (trace != nullptr) return trace.get();
  auto fresh = std::make_unique<Trace>(file);
  if (fresh->events_ == nullptr || !write_whole_file(file, fresh->json(0))) {
    registry().traces.erase(file);
    log.write(LogLevel::Warn, fmt::format("trace={}: the file cannot be written; nothing is traced", path));
    return nullptr;
  }
  if (registry().traces.size() == 1) std::atexit(write_all_traces);
  fresh->written_ = 0;
  trace = std::move(fresh);
  return trace.get();
}

void Trace::record(const char* category, std::string_view subject, const char* result, Clock::time_point begin,
                   Clock::time_point end) {
  const size_t index = count_.fetch_add(1, std::memory_order_relaxed);
  if (index >= kCapacity) return;
  thread_local const int32_t thread = ::gettid();
  Event& event = events_.get()[index];
  event.thread = thread;
  event.begin_ns = std::chrono::nanoseconds(begin - start_).count();
  event.duration_ns = std::chrono::nanoseconds(end - begin).count();
  event.category = category;
  event.result = result;
  subject.copy(event.subject, Event::kSubject - 1);
  event.complete.store(true, std::memory_order_release);
}

/// Line by line: a million events are too many for a tree in memory.
std::string Trace::json(size_t count) const {
  std::vector<const Event*> events;
  for (size_t i = 0; i < std::min(count, kCapacity); ++i)
    if (events_.get()[i].complete.load(std::memory_order_acquire)) events.push_back(&events_.get()[i]);
  std::stable_sort(events.begin(), events.end(), [](const Event* a, const Event* b) {
    return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->duration_ns > b->duration_ns;
  });
  std::string out = "{\"displayTimeUnit\": \"ms\",\n";
  out += fmt::format("\"otherData\": {{\"dropped_events\": {}}},\n", count > kCapacity ? count - kCapacity : 0);
  out += "\"traceEvents\": [";
  const char* separator = "\n";
  for (const Event* event : events) {
    out += separator;
    event->append(out, process_);
    separator = ",\n";
  }
  return out + "\n]}\n";
}

void Trace::write(const Log& log) {
  if (::getpid() != process_) return;
  const std::lock_guard lock(writing_);
  const size_t count = count_.load();
  if (written_ == count) return;
  if (const auto outcome = write_whole_file(path_, json(count)); outcome)
    written_ = count;
  else
    log.write(LogLevel::Warn, "the trace is lost: " + outcome.error().message);
}

}  // namespace stepfuse::runtime
