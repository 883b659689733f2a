// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Many processes on one cache folder, killed at random, on a disk too small for them, among damaged files: nobody ever
// gets a wrong entry, and nothing is left behind.
#include "runtime/cache/inspect.h"
#include "runtime/cache/store.h"
#include "tests/support/cache_folder.h"

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <new>
#include <random>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace stepfuse::runtime {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;
using tests::belongs_to;
using tests::files_below;
using tests::store_options;
using tests::TemporaryFolder;
using tests::test_entry;
using tests::test_key;

/// Counters that all processes see.
struct Shared {
  std::atomic<int64_t> arrived{0}, lookups{0}, hits{0}, published{0}, wrong{0}, damaged{0}, evicted{0}, trouble{0};
};

class SharedMemory {
 public:
  SharedMemory() {
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw InternalError("no shared memory");
    shared_ = new (memory) Shared;
  }
  ~SharedMemory() { ::munmap(shared_, sizeof(Shared)); }
  Shared* operator->() const { return shared_; }

 private:
  Shared* shared_;
};

/// A child that runs `work` and ends; its exit code is 0 unless something was thrown.
pid_t start(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    work();
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

/// Exit code, or minus the signal.
int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

const Log& silent() {
  static const Log log(std::nullopt);
  return log;
}

/// A file system of its own in memory, if this user may mount one; else an ordinary folder.
class Disk {
 public:
  Disk(const std::string& path, const char* limits) : path_(path) {
    fs::create_directories(path);
    fs::permissions(path, fs::perms::owner_all);
    mounted_ = ::mount("none", path.c_str(), "tmpfs", 0, limits) == 0;
  }
  ~Disk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }

 private:
  std::string path_;
  bool mounted_;
};

TEST(CacheStress, D01_SixteenProcessesWriteOneKeyAtOnce) {
  constexpr int kProcesses = 16;
  constexpr int kRounds = 50;
  const TemporaryFolder top;
  const Disk disk(top / "disk", "size=16m,mode=0700");
  const StoreOptions options = store_options(top / "disk/cache");
  const SharedMemory shared;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p)
    children.push_back(start([&] {
      Store store(options);
      for (int round = 0; round < kRounds; ++round) {
        ++shared->arrived;
        while (shared->arrived < (round + 1) * kProcesses) ::sched_yield();
        const Key key = test_key(round);
        auto found = store.find(key, silent());
        if (!found.entry) {
          store.publish(key, test_entry(key, 5000), found.occupied, silent());
          found = store.find(key, silent());
        }
        shared->hits += found.entry && belongs_to(*found.entry, key) ? 1 : 0;
      }
      const CacheMetrics metrics = store.counters().snapshot();
      shared->published += metrics.published;
      shared->damaged += metrics.damaged;
      shared->trouble += metrics.io_errors;
    }));
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(shared->hits, kProcesses * kRounds);
  EXPECT_EQ(shared->damaged, 0);
  EXPECT_EQ(shared->trouble, 0);
  EXPECT_EQ(shared->published, kRounds) << "one writer's file is kept";
  EXPECT_EQ(files_below(top / "disk").size(), static_cast<size_t>(kRounds));
}

constexpr int kKeys = 50;

/// Looks up random keys and writes those that are not there, until it is killed.
void look_up_forever(const StoreOptions& options, uint64_t seed, const SharedMemory& shared) {
  std::mt19937_64 random(seed);
  Store store(options);
  CacheMetrics before;
  while (true) {
    const Key key = test_key(static_cast<int>(random() % kKeys));
    const auto found = store.find(key, silent());
    ++shared->lookups;
    if (found.entry) {
      ++shared->hits;
      shared->wrong += belongs_to(*found.entry, key) ? 0 : 1;
    } else {
      store.publish(key, test_entry(key, 4000 + random() % 30000), found.occupied || random() % 4 == 0, silent());
    }
    const CacheMetrics now = store.counters().snapshot();
    shared->published += now.published - before.published;
    shared->damaged += now.damaged - before.damaged;
    shared->evicted += now.evicted - before.evicted;
    shared->trouble += now.io_errors - before.io_errors;
    before = now;
  }
}

/// Changes one byte of one entry: in the header, the key, the metadata or the payload by turns.
void flip_a_byte(const fs::path& folder, std::mt19937_64& random) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (fs::recursive_directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored))
    if (it->path().extension() == ".sfk") files.push_back(it->path());
  if (files.empty()) return;
  const Fd file(::open(files[random() % files.size()].c_str(), O_RDWR | O_CLOEXEC));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0 || info.st_size < 200) return;
  const std::array<uint64_t, 4> places = {random() % 48, 48 + random() % 30, 90 + random() % 10,
                                          120 + random() % static_cast<uint64_t>(info.st_size - 120)};
  const auto at = static_cast<off_t>(places[random() % places.size()]);
  char byte = 0;
  if (::pread(file.get(), &byte, 1, at) != 1) return;
  byte = static_cast<char>(byte ^ (1 << (random() % 8)));
  // The writer or the sweeper may be faster, or the disk full: then nothing is flipped.
  if (::pwrite(file.get(), &byte, 1, at) != 1) return;
}

TEST(CacheStress, TwentyProcessesKilledAtRandomOnASmallDiskAmongDamage) {
  constexpr int kProcesses = 20;
  constexpr int kKills = 40;
  constexpr int64_t kBound = 400 << 10;
  const TemporaryFolder top;
  const Disk disk(top / "disk", "size=900k,mode=0700");
  StoreOptions options = store_options(top / "disk/cache");
  options.max_bytes = kBound;
  const SharedMemory shared;
  std::mt19937_64 random(20);
  std::vector<pid_t> children;
  const auto spawn = [&] { return start([&, seed = random()] { look_up_forever(options, seed, shared); }); };
  for (int p = 0; p < kProcesses; ++p) children.push_back(spawn());
  const auto end = steady_clock::now() + std::chrono::seconds(6);
  int killed = 0;
  while (steady_clock::now() < end || killed < kKills) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    flip_a_byte(top / "disk/cache", random);
    pid_t& victim = children[random() % children.size()];
    ::kill(victim, SIGKILL);
    EXPECT_EQ(wait_for(victim), -SIGKILL) << "a process ended by itself";
    ++killed;
    victim = spawn();
  }
  for (const pid_t child : children) ::kill(child, SIGKILL);
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), -SIGKILL);
  EXPECT_EQ(shared->wrong, 0);
  // The test saw what it is about.
  EXPECT_GT(shared->hits, 500);
  EXPECT_GT(shared->published, 100);
  EXPECT_GT(shared->damaged, 5);
  EXPECT_GT(shared->evicted, 10);

  // Twenty writers of eight entries each may be above this small bound between two sweeps; a later process that writes
  // ends it.
  options.ages.between_processes = std::chrono::seconds(0);
  Store store(options);
  const Key last = test_key(kKeys);
  store.publish(last, test_entry(last), true, silent());
  const StoreStats stats = store_stats(store, silent());
  EXPECT_LE(stats.bytes, kBound);
  EXPECT_EQ(stats.temporary_files, 0) << "the writers are dead, so their files go at once";
  for (int i = 0; i < kKeys; ++i) {
    const Key key = test_key(i);
    const auto found = store.find(key, silent());
    EXPECT_TRUE(!found.entry || belongs_to(*found.entry, key));
    if (!found.entry) store.publish(key, test_entry(key, 4000), true, silent());
    EXPECT_TRUE(store.find(key, silent()).entry) << i;
  }
}

/// The command on real kernels, with `folder` as its cache.
pid_t start_command(const std::string& folder, const char* jit) {
  return start([&] {
    ::setenv("STEPFUSE_CACHE", "on", 1);
    ::setenv("STEPFUSE_CACHE_DIR", folder.c_str(), 1);
    ::setenv("STEPFUSE_JIT", jit, 1);
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDOUT_FILENO);
    ::execl(STEPFUSE_BINARY, STEPFUSE_BINARY, "explain", "--recipe", "muon", "--shape", "32x48", "--shape", "48x32",
            static_cast<char*>(nullptr));
    throw InternalError("cannot start the command");
  });
}

TEST(CacheStress, RealKernelsOfProcessesThatStartTogetherAndAreKilled) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3; ++round) {
    const TemporaryFolder top;
    std::vector<pid_t> children;
    for (int p = 0; p < 8; ++p) children.push_back(start_command(top / "cache", "on"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 100));
    for (size_t p = 0; p < 3; ++p) ::kill(children[p], SIGKILL);
    for (size_t p = 0; p < children.size(); ++p) {
      const int code = wait_for(children[p]);
      EXPECT_TRUE(code == 0 || (p < 3 && code == -SIGKILL)) << code;
    }
    EXPECT_EQ(wait_for(start_command(top / "cache", "off")), 0) << "a kernel is missing";
  }
}

}  // namespace
}  // namespace stepfuse::runtime
