// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/sweep.h"

#include "runtime/cache/listing.h"
#include "runtime/cache/names.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include <fcntl.h>

namespace stepfuse::runtime {

namespace {

/// Of the bound, in what a process may add before it looks again; and the fewest entries that are worth a look.
constexpr int64_t kPartsOfBound = 32;
constexpr int64_t kEntriesBetweenSweeps = 8;

struct Candidate {
  std::string shard, name;
  int64_t bytes;
  timespec used;
};

/// Seconds since the file's time; a clock that was set back makes no file immortal.
int64_t age_of(const timespec& used, time_t now) { return std::max<int64_t>(now - used.tv_sec, 0); }

bool is_in_future(const timespec& used, time_t now) { return used.tv_sec > now + 3600; }

bool used_earlier(const Candidate& a, const Candidate& b) {
  if (a.used.tv_sec != b.used.tv_sec) return a.used.tv_sec < b.used.tv_sec;
  if (a.used.tv_nsec != b.used.tv_nsec) return a.used.tv_nsec < b.used.tv_nsec;
  return a.name < b.name;
}

bool is_abandoned(const ListedFile& file, const SweepAges& ages, time_t now) {
  return writer_is_gone(file.name) || age_of(file.info.st_mtim, now) >= ages.abandoned.count();
}

class Pass {
 public:
  Pass(FileOps& ops, int folder, const SweepGoal& goal, const SweepAges& ages)
      : ops_(ops), folder_(folder), goal_(goal), ages_(ages), now_(::time(nullptr)) {}

  SweepReport run() {
    report_.error = for_each_file(ops_, folder_, [this](const ListedFile& file) { look_at(file); });
    std::sort(candidates_.begin(), candidates_.end(), used_earlier);
    const int64_t down_to = report_.bytes > goal_.above ? goal_.down_to : report_.bytes;
    for (const Candidate& candidate : candidates_) {
      const bool too_old = goal_.older_than && age_of(candidate.used, now_) >= goal_.older_than->count();
      const bool young = age_of(candidate.used, now_) < ages_.young.count() && !is_in_future(candidate.used, now_);
      if ((report_.bytes > down_to && !young) || too_old) evict(candidate);
    }
    return report_;
  }

 private:
  void look_at(const ListedFile& file) {
    if (file.temporary) {
      if (is_abandoned(file, ages_, now_) && ops_.unlink_at(file.shard, file.name.c_str()) == 0) ++report_.abandoned;
      return;
    }
    candidates_.push_back({file.shard_name, file.name, file.info.st_size, file.info.st_mtim});
    report_.bytes += file.info.st_size;
    ++report_.entries;
  }

  void evict(const Candidate& candidate) {
    const Fd shard(ops_.open_at(folder_, candidate.shard.c_str(), O_RDONLY | O_DIRECTORY, 0));
    if (!shard || (ops_.unlink_at(shard.get(), candidate.name.c_str()) != 0 && errno != ENOENT)) {
      if (report_.error == 0) report_.error = errno;
      return;
    }
    report_.bytes -= candidate.bytes;
    --report_.entries;
    ++report_.evicted;
    report_.evicted_bytes += candidate.bytes;
  }

  FileOps& ops_;
  int folder_;
  const SweepGoal& goal_;
  const SweepAges& ages_;
  time_t now_;
  std::vector<Candidate> candidates_;
  SweepReport report_;
};

}  // namespace

SweepReport sweep_folder(FileOps& ops, int folder, const SweepGoal& goal, const SweepAges& ages) {
  return Pass(ops, folder, goal, ages).run();
}

void Sweeper::after_publish(int folder, int64_t bytes) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // Another thread is at it; what this one wrote is counted by the next sweep.
  if (lock.owns_lock() && due(bytes)) sweep(folder);
}

bool Sweeper::make_room(int folder) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  const auto now = std::chrono::steady_clock::now();
  if (!lock.owns_lock() || (made_room_ && now - *made_room_ < ages_.between_rooms)) return false;
  made_room_ = now;
  first_ = false;  // who swept last does not matter now
  sweep(folder);
  return true;
}

bool Sweeper::due(int64_t bytes) {
  new_bytes_ += bytes;
  ++new_entries_;
  if (first_) return true;
  if (new_entries_ < kEntriesBetweenSweeps) return false;
  return new_bytes_ >= max_bytes_ / kPartsOfBound || known_bytes_ + new_bytes_ > max_bytes_;
}

bool Sweeper::swept_recently(const struct stat& stamp) const {
  return stamp.st_size > 0 && age_of(stamp.st_mtim, ::time(nullptr)) < ages_.between_processes.count();
}

void Sweeper::sweep(int folder) {
  const bool first = std::exchange(first_, false);
  const Fd file(ops_.open_at(folder, kSweepFile, O_RDWR | O_CREAT, S_IRUSR | S_IWUSR));
  struct stat stamp{};
  const bool stamped = file && ops_.stat(file.get(), &stamp) == 0;
  if (first && stamped && swept_recently(stamp)) return;
  const bool locked = file && ops_.lock(file.get()) == 0;
  if (file && !locked) {
    // Without locks (ENOLCK and its like) two may sweep at once, which is wasteful and no more.
    const bool held = errno == EWOULDBLOCK;
    if (!held) ++counters_.io_errors;
    if (held && age_of(stamp.st_mtim, ::time(nullptr)) < ages_.stuck.count()) return;
  }
  if (locked) ops_.touch(file.get());  // its age is that of the lock from now on
  const SweepReport report = sweep_folder(ops_, folder, {max_bytes_, max_bytes_ / 10 * 9, std::nullopt}, ages_);
  known_bytes_ = report.bytes;
  new_bytes_ = 0;
  new_entries_ = 0;
  ++counters_.sweeps;
  counters_.evicted += report.evicted;
  if (!file) return;
  // One byte tells a finished sweep from a file that was just made.
  if (stamp.st_size == 0 && ops_.write(file.get(), "\n", 1) != 1) ++counters_.io_errors;
  ops_.touch(file.get());
}

}  // namespace stepfuse::runtime
