// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// What the store does when system calls fail: a miss or a file not written, never more.
#include "runtime/cache/inspect.h"
#include "runtime/cache/store.h"
#include "tests/support/cache_folder.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <sys/mount.h>
#include <sys/resource.h>

#include <fcntl.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

namespace fs = std::filesystem;
using tests::belongs_to;
using tests::files_below;
using tests::KeptLog;
using tests::store_options;
using tests::TemporaryFolder;
using tests::test_entry;
using tests::test_key;

constexpr int kAlways = std::numeric_limits<int>::max();

/// Lets one call fail a number of times.
class FailingOps : public FileOps {
 public:
  enum class Call { None, OpenForReading, OpenForWriting, MakeFolder, Read, Write, Sync, Link, Rename, Lock };

  void fail(Call call, int error, int times) {
    call_ = call;
    error_ = error;
    times_ = times;
  }
  int calls() const { return calls_; }

  int open_at(int folder, const char* name, int flags, mode_t mode) override {
    const bool is_file = (flags & O_DIRECTORY) == 0;
    if (is_file && fails((flags & O_CREAT) != 0 ? Call::OpenForWriting : Call::OpenForReading)) return -1;
    return FileOps::open_at(folder, name, flags, mode);
  }
  int make_folder_at(int folder, const char* name) override {
    return fails(Call::MakeFolder) ? -1 : FileOps::make_folder_at(folder, name);
  }
  ssize_t read(int fd, void* bytes, size_t size) override {
    return fails(Call::Read) ? -1 : FileOps::read(fd, bytes, size);
  }
  ssize_t write(int fd, const void* bytes, size_t size) override {
    return fails(Call::Write) ? -1 : FileOps::write(fd, bytes, size / 2 + 1);  // and never all at once
  }
  int sync(int fd) override { return fails(Call::Sync) ? -1 : FileOps::sync(fd); }
  int link_at(int folder, const char* from, const char* to) override {
    return fails(Call::Link) ? -1 : FileOps::link_at(folder, from, to);
  }
  int rename_at(int folder, const char* from, const char* to) override {
    if (call_ != Call::Rename || error_ != ENOENT)
      return fails(Call::Rename) ? -1 : FileOps::rename_at(folder, from, to);
    // As on NFS when the answer to a request that worked is lost and the request is repeated.
    EXPECT_EQ(FileOps::rename_at(folder, from, to), 0);
    return fails(Call::Rename) ? -1 : 0;
  }
  int lock(int fd) override { return fails(Call::Lock) ? -1 : FileOps::lock(fd); }

 private:
  bool fails(Call call) {
    if (call != call_) return false;
    ++calls_;
    if (times_ == 0) return false;
    --times_;
    errno = error_;
    return true;
  }

  Call call_ = Call::None;
  int error_ = 0, times_ = 0, calls_ = 0;
};

using Call = FailingOps::Call;

class CacheTrouble : public testing::Test {
 protected:
  CacheTrouble() : store_(options()) {}

  StoreOptions options() {
    StoreOptions options = store_options(top_ / "cache");
    options.ops = &ops_;
    return options;
  }
  bool holds(int number) {
    const auto found = store_.find(test_key(number), kept_.log());
    EXPECT_TRUE(!found.entry || belongs_to(*found.entry, test_key(number)));
    return found.entry.has_value();
  }
  void publish(int number) { store_.publish(test_key(number), test_entry(test_key(number)), false, kept_.log()); }

  const TemporaryFolder top_;
  const KeptLog kept_;
  FailingOps ops_;
  Store store_;
};

TEST_F(CacheTrouble, D10_APassingErrorIsTriedAgain) {
  for (const int error : {ESTALE, EBUSY}) {
    ops_.fail(Call::Link, error, 2);
    publish(error);
    ops_.fail(Call::OpenForReading, error, 2);
    EXPECT_TRUE(holds(error));
  }
  EXPECT_EQ(store_.counters().io_errors, 0);
  EXPECT_EQ(kept_.all(), "");
}

TEST_F(CacheTrouble, D10_ALastingErrorIsAMissAfterThreeTriesAndDeletesNothing) {
  publish(1);
  ops_.fail(Call::OpenForReading, ESTALE, kAlways);
  const int before = ops_.calls();
  EXPECT_FALSE(holds(1));
  EXPECT_EQ(ops_.calls() - before, 3);
  for (const int error : {EIO, EACCES, EMFILE}) {
    ops_.fail(Call::Read, error, kAlways);
    EXPECT_FALSE(holds(1));
    EXPECT_FALSE(holds(1));
    EXPECT_EQ(kept_.count(strerrorname_np(error)), 1) << kept_.all();
  }
  EXPECT_EQ(store_.counters().io_errors, 7);
  EXPECT_EQ(store_.counters().damaged, 0);
  ops_.fail(Call::None, 0, 0);
  EXPECT_TRUE(holds(1));
}

TEST_F(CacheTrouble, D06_AWriteThatFailsLeavesNothing) {
  int number = 0;
  for (const Call call : {Call::MakeFolder, Call::OpenForWriting, Call::Write, Call::Sync, Call::Link})
    for (const int error : {ENOSPC, EDQUOT, EIO, EROFS}) {
      ops_.fail(call, error, kAlways);
      publish(++number);
      ops_.fail(Call::None, 0, 0);
      EXPECT_FALSE(holds(number));
    }
  EXPECT_TRUE(files_below(top_ / "cache").empty());
  EXPECT_EQ(store_.counters().io_errors, number);
  EXPECT_EQ(kept_.count("writing to the kernel cache failed: ENOSPC"), 1) << kept_.all();
}

TEST_F(CacheTrouble, WithoutHardLinksEntriesAreRenamed) {
  for (const int error : {EPERM, EOPNOTSUPP, EMLINK}) {
    ops_.fail(Call::Link, error, kAlways);
    publish(error);
    EXPECT_TRUE(holds(error));
  }
  EXPECT_EQ(files_below(top_ / "cache").size(), 3u);
  EXPECT_EQ(store_.counters().io_errors, 0);
}

TEST_F(CacheTrouble, D10_ARenameThatWorkedAndSaysItDidNot) {
  ops_.fail(Call::Rename, ENOENT, kAlways);
  store_.publish(test_key(1), test_entry(test_key(1)), true, kept_.log());
  EXPECT_EQ(store_.counters().io_errors, 0);
  EXPECT_TRUE(holds(1));
}

TEST_F(CacheTrouble, D10_WithoutLocksTheBoundHoldsAllTheSame) {
  ops_.fail(Call::Lock, ENOLCK, kAlways);
  publish(1);
  EXPECT_EQ(store_.counters().sweeps, 1);
  EXPECT_EQ(store_.counters().io_errors, 1);
  EXPECT_TRUE(holds(1));
}

/// A file system of 64 KiB or of 20 files, while it lives.
class SmallDisk {
 public:
  SmallDisk(const std::string& path, const char* limits) : path_(path) {
    fs::create_directories(path);
    mounted_ = ::mount("none", path.c_str(), "tmpfs", 0, limits) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_;
};

TEST(CacheFull, D06_AFullDiskKeepsWhatFitsAndNoPart) {
  for (const char* limits : {"size=64k,mode=0700", "nr_inodes=20,mode=0700"}) {
    const TemporaryFolder top;
    const SmallDisk disk(top / "cache", limits);
    if (!disk.mounted()) GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
    const KeptLog kept;
    Store store(store_options(top / "cache"));
    int found = 0;
    for (int i = 0; i < 100; ++i) {
      const Key key = test_key(i);
      store.publish(key, test_entry(key, 2000), false, kept.log());
      const auto read = store.find(key, kept.log());
      EXPECT_TRUE(!read.entry || belongs_to(*read.entry, key));
      found += read.entry ? 1 : 0;
    }
    EXPECT_GT(found, 0) << limits;
    EXPECT_LT(found, 100) << limits;
    EXPECT_EQ(kept.count("ENOSPC"), 1) << kept.all();
    EXPECT_EQ(store.counters().damaged, 0);
    EXPECT_EQ(store_stats(store, kept.log()).temporary_files, 0);
    EXPECT_EQ(store_stats(store, kept.log()).entries, found);
  }
}

/// A folder over its bound on a full disk: nobody can publish, so nobody would sweep either.
TEST(CacheFull, D15_AFullDiskIsSweptWhenTheCacheFillsIt) {
  const TemporaryFolder top;
  const SmallDisk disk(top / "cache", "size=64k,mode=0700");
  if (!disk.mounted()) GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  const KeptLog kept;
  Store large(store_options(top / "cache"));
  for (int i = 0; i < 100; ++i) large.publish(test_key(i), test_entry(test_key(i), 2000), false, kept.log());
  StoreOptions options = store_options(top / "cache");
  options.max_bytes = 20'000;
  Store small(options);
  small.publish(test_key(1000), test_entry(test_key(1000), 2000), false, kept.log());
  EXPECT_TRUE(small.find(test_key(1000), kept.log()).entry);
  EXPECT_LE(store_stats(small, kept.log()).bytes, 20'000);
  EXPECT_EQ(small.counters().io_errors, 0);
}

TEST(CacheFull, D06_ABundleThatDoesNotFitLeavesTheOldOneAndNoPart) {
  const TemporaryFolder top;
  const SmallDisk disk(top / "disk", "size=64k,mode=0700");
  if (!disk.mounted()) GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  const std::string path = top / "disk/kernels.sfb";
  std::vector<Entry> entries;
  for (int i = 0; i < 200; ++i) {
    entries.push_back(test_entry(test_key(i), 2000));
    if (i == 3) {
      ASSERT_TRUE(write_bundle(path, entries));
    }
  }
  const auto written = write_bundle(path, entries);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, StatusCode::Io);
  EXPECT_NE(written.error().message.find("No space left"), std::string::npos) << written.error().message;
  EXPECT_EQ((*Bundle::open(path, ::geteuid()))->items().size(), 4u);
  EXPECT_EQ(files_below(top / "disk").size(), 1u);
}

TEST(CacheFull, D06_ALimitOnTheSizeOfFilesIsTroubleAndNoMore) {
  const TemporaryFolder top;
  const KeptLog kept;
  Store store(store_options(top / "cache"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  store.publish(test_key(1), test_entry(test_key(1), 5000), false, kept.log());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(store.find(test_key(1), kept.log()).entry);
  EXPECT_TRUE(files_below(top / "cache").empty());
  EXPECT_EQ(kept.count("EFBIG"), 1) << kept.all();
}

}  // namespace
}  // namespace stepfuse::runtime
