// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/inspect.h"
#include "runtime/cache/store.h"
#include "tests/support/cache_folder.h"

#include <set>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace stepfuse::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using tests::belongs_to;
using tests::files_below;
using tests::KeptLog;
using tests::store_options;
using tests::TemporaryFolder;
using tests::test_entry;
using tests::test_key;

class CacheStore : public testing::Test {
 protected:
  std::string folder() const { return top_ / "cache"; }
  StoreOptions options() const { return store_options(folder()); }
  fs::path file_of(const Key& key) const { return fs::path(folder()) / entry_name(key).path(); }

  void publish(Store& store, const Key& key, size_t bytes = 100) {
    store.publish(key, test_entry(key, bytes), false, kept_.log());
  }
  bool holds(Store& store, const Key& key) {
    const auto found = store.find(key, kept_.log());
    EXPECT_TRUE(!found.entry || belongs_to(*found.entry, key));
    return found.entry.has_value();
  }
  void set_age(const fs::path& file, seconds age) { fs::last_write_time(file, fs::file_time_type::clock::now() - age); }

  const TemporaryFolder top_;
  const KeptLog kept_;
};

TEST_F(CacheStore, KeepsAnEntryAcrossStoresForItsOwnerAlone) {
  Store first(options());
  const Key key = test_key(1);
  EXPECT_FALSE(holds(first, key));
  publish(first, key);
  Store second(options());
  EXPECT_TRUE(holds(second, key));
  EXPECT_EQ(files_below(folder()).size(), 1u);
  struct stat info{};
  ASSERT_EQ(::stat(file_of(key).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(kept_.all(), "");
}

TEST_F(CacheStore, TheFirstWriterWinsAndReplacingExchanges) {
  Store store(options());
  const Key key = test_key(1);
  publish(store, key, 10);
  publish(store, key, 20);
  EXPECT_EQ(store.find(key, kept_.log()).entry->payload.size(), 10u);
  store.publish(key, test_entry(key, 20), true, kept_.log());
  EXPECT_EQ(store.find(key, kept_.log()).entry->payload.size(), 20u);
  EXPECT_EQ(files_below(folder()).size(), 1u);
}

TEST_F(CacheStore, D03_UnfinishedFilesAreNoEntriesAndGoWhenTheyAreOld) {
  Store store(options());
  const Key key = test_key(1);
  publish(store, key);
  const fs::path shard = file_of(key).parent_path();
  for (const char* name : {".123.tmp", ".tmp-0123456789abcdef-1-0.0", "notes.txt"})
    tests::write_file(shard / name, "h");
  fs::copy_file(file_of(key), shard / ("." + file_of(key).filename().string()));
  EXPECT_EQ(list_entries(store, kept_.log()).size(), 1u);
  EXPECT_TRUE(holds(store, key));
  const int folder_fd = store.live(kept_.log())->fd.get();
  EXPECT_EQ(sweep_folder(FileOps::system(), folder_fd, {1 << 30, 1 << 30, {}}, {}).abandoned, 0);
  set_age(shard / ".tmp-0123456789abcdef-1-0.0", seconds(3601));
  EXPECT_EQ(sweep_folder(FileOps::system(), folder_fd, {1 << 30, 1 << 30, {}}, {}).abandoned, 1);
  EXPECT_TRUE(fs::exists(shard / "notes.txt"));  // not ours
}

TEST_F(CacheStore, D03_ADeadWritersFileGoesAtOnceAndALivingOnesStays) {
  Store store(options());
  publish(store, test_key(1));
  const fs::path shard = file_of(test_key(1)).parent_path();
  const pid_t child = ::fork();
  if (child == 0) {
    tests::write_file(shard / temporary_name(), "half");
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const fs::path own = shard / temporary_name();
  tests::write_file(own, "half");
  const auto report = sweep_folder(FileOps::system(), store.live(kept_.log())->fd.get(), {1 << 30, 1 << 30, {}}, {});
  EXPECT_EQ(report.abandoned, 1);
  EXPECT_TRUE(fs::exists(own));
}

TEST_F(CacheStore, D04_DamageIsAMissWithOneWarningAndTheFileGoes) {
  const Key key = test_key(1);
  const std::string whole = [&] {
    Store store(options());
    publish(store, key);
    return tests::read_file(file_of(key));
  }();
  const std::vector<size_t> lengths = {0, 1, whole.size() / 2, whole.size() - 1};
  for (const size_t length : lengths) {
    tests::write_file(file_of(key), whole.substr(0, length));
    const KeptLog kept;
    Store store(options());
    EXPECT_FALSE(store.find(key, kept.log()).entry) << length;
    EXPECT_FALSE(fs::exists(file_of(key)));
    EXPECT_EQ(kept.count(file_of(key).string()), 1) << kept.all();
    EXPECT_EQ(store.counters().damaged, 1);
    publish(store, key);
    EXPECT_TRUE(holds(store, key));
  }
}

TEST_F(CacheStore, D04_SwappedPayloadsAreFound) {
  Store store(options());
  const Key a = test_key(1), b = test_key(2);
  publish(store, a);
  publish(store, b);
  const std::string file_a = tests::read_file(file_of(a)), file_b = tests::read_file(file_of(b));
  const size_t payload = file_a.size() - 100;  // incompressible, so about its own size
  tests::write_file(file_of(a), file_a.substr(0, payload) + file_b.substr(payload));
  EXPECT_FALSE(holds(store, a));
  // Whole files under each other's names: the key says so.
  publish(store, a);
  tests::write_file(file_of(a), file_b);
  tests::write_file(file_of(b), file_a);
  EXPECT_FALSE(holds(store, a));
  EXPECT_FALSE(holds(store, b));
}

TEST_F(CacheStore, D14_ACollisionOfHashesIsAMiss) {
  Store store(options());
  const Key a = test_key(1);
  Key b = test_key(2);
  b.hash = a.hash;
  publish(store, a);
  const auto found = store.find(b, kept_.log());
  EXPECT_FALSE(found.entry);
  EXPECT_TRUE(found.occupied);
  EXPECT_EQ(store.counters().damaged, 0);
  store.publish(b, test_entry(b), found.occupied, kept_.log());
  EXPECT_EQ(store.find(b, kept_.log()).entry->preimage, b.preimage);
  EXPECT_FALSE(holds(store, a));
}

TEST_F(CacheStore, D12_AnObjectionMakesALiveEntryAMissAndIsNotAskedOfALayer) {
  const Key key = test_key(1);
  const auto objection = [](const Entry&) { return std::optional<std::string>("compiled by LLVM 18"); };
  {
    Store store(options());
    publish(store, key);
    const auto found = store.find(key, kept_.log(), objection);
    EXPECT_FALSE(found.entry);
    EXPECT_TRUE(found.occupied);
    EXPECT_EQ(found.why, "compiled by LLVM 18");
  }
  StoreOptions layered = store_options(top_ / "other");
  layered.layers = {folder()};
  Store store(layered);
  const auto found = store.find(key, kept_.log(), objection);
  ASSERT_TRUE(found.entry);
  EXPECT_TRUE(found.from_layer);
}

TEST_F(CacheStore, LayersAreNeverWritten) {
  const Key good = test_key(1), bad = test_key(2);
  {
    Store store(options());
    publish(store, good);
    publish(store, bad);
  }
  tests::write_file(file_of(bad), "damaged");
  StoreOptions layered = store_options(top_ / "other");
  layered.layers = {folder()};
  Store store(layered);
  EXPECT_TRUE(holds(store, good));
  EXPECT_FALSE(holds(store, bad));
  EXPECT_EQ(tests::read_file(file_of(bad)), "damaged");
  EXPECT_EQ(store.counters().damaged, 1);
}

TEST_F(CacheStore, D09_FilesThatOthersMayWriteAreNotBelieved) {
  Store store(options());
  const Key key = test_key(1);
  publish(store, key);
  ASSERT_EQ(::chmod(file_of(key).c_str(), 0666), 0);
  const auto writable = store.find(key, kept_.log());
  EXPECT_FALSE(writable.entry);
  EXPECT_TRUE(writable.occupied);
  fs::rename(file_of(key), top_ / "elsewhere");
  ASSERT_EQ(::chmod((top_ / "elsewhere").c_str(), 0600), 0);
  fs::create_symlink(top_ / "elsewhere", file_of(key));
  EXPECT_FALSE(holds(store, key));
  fs::remove(file_of(key));
  ASSERT_EQ(::mkfifo(file_of(key).c_str(), 0600), 0);
  EXPECT_FALSE(holds(store, key));  // and does not wait for a writer
  if (::geteuid() != 0) return;
  fs::remove(file_of(key));
  fs::copy_file(top_ / "elsewhere", file_of(key));
  EXPECT_TRUE(holds(store, key));
  ASSERT_EQ(::chown(file_of(key).c_str(), 4711, 4711), 0);
  EXPECT_FALSE(holds(store, key));
}

TEST_F(CacheStore, ReadOnlyReadsAndTouchesNothing) {
  const Key good = test_key(1), bad = test_key(2);
  {
    Store store(options());
    publish(store, good);
    publish(store, bad);
  }
  tests::write_file(file_of(bad), "damaged");
  set_age(file_of(good), seconds(7 * 86400));
  const auto before = fs::last_write_time(file_of(good));
  StoreOptions readonly = options();
  readonly.mode = CacheMode::ReadOnly;
  Store store(readonly);
  EXPECT_TRUE(holds(store, good));
  EXPECT_FALSE(holds(store, bad));
  publish(store, test_key(3));
  EXPECT_EQ(fs::last_write_time(file_of(good)), before);
  EXPECT_EQ(tests::read_file(file_of(bad)), "damaged");
  EXPECT_EQ(files_below(folder()).size(), 2u);
}

TEST_F(CacheStore, RefreshReadsNothingAndReplaces) {
  const Key key = test_key(1);
  {
    Store store(options());
    publish(store, key, 10);
  }
  StoreOptions refresh = options();
  refresh.mode = CacheMode::Refresh;
  Store store(refresh);
  EXPECT_FALSE(holds(store, key));
  publish(store, key, 20);
  Store after(options());
  EXPECT_EQ(after.find(key, kept_.log()).entry->payload.size(), 20u);
}

TEST_F(CacheStore, OffAndSizeZeroKeepNothing) {
  StoreOptions off = options();
  off.mode = CacheMode::Off;
  Store store(off);
  publish(store, test_key(1));
  EXPECT_FALSE(holds(store, test_key(1)));
  EXPECT_FALSE(fs::exists(folder()));
  StoreOptions none = options();
  none.max_bytes = 0;
  Store empty(none);
  publish(empty, test_key(1));
  EXPECT_FALSE(holds(empty, test_key(1)));
}

TEST_F(CacheStore, AHitMarksAnEntryAsUsedAtMostDaily) {
  Store store(options());
  const Key key = test_key(1);
  publish(store, key);
  for (const auto& [age, refreshed] : {std::pair(seconds(3600), false), std::pair(seconds(90000), true)}) {
    set_age(file_of(key), age);
    EXPECT_TRUE(holds(store, key));
    const auto now_old = fs::file_time_type::clock::now() - fs::last_write_time(file_of(key));
    EXPECT_EQ(now_old < seconds(60), refreshed);
  }
}

TEST_F(CacheStore, D15_TheBoundHoldsAndWhatIsInUseStays) {
  constexpr size_t kBytes = 100000;
  StoreOptions bounded = options();
  bounded.max_bytes = 20 * static_cast<int64_t>(kBytes);
  bounded.refresh_after = seconds(0);
  Store writer(bounded);
  for (int i = 0; i < 5; ++i) publish(writer, test_key(i), kBytes);
  for (int i = 0; i < 5; ++i) set_age(file_of(test_key(i)), seconds(86400));
  // A second process uses the five old entries all the while.
  int stop[2];
  ASSERT_EQ(::pipe(stop), 0);
  const pid_t user = ::fork();
  if (user == 0) {
    Store store(bounded);
    ASSERT_EQ(::fcntl(stop[0], F_SETFL, O_NONBLOCK), 0);
    int misses = 0;
    char byte;
    while (::read(stop[0], &byte, 1) < 0)
      for (int i = 0; i < 5; ++i) misses += store.find(test_key(i), Log(std::nullopt)).entry ? 0 : 1;
    ::_exit(misses == 0 ? 0 : 1);
  }
  while (fs::file_time_type::clock::now() - fs::last_write_time(file_of(test_key(4))) > seconds(60)) ::usleep(1000);
  for (int i = 100; i < 160; ++i) {
    publish(writer, test_key(i), kBytes);
    ::usleep(2000);
  }
  ASSERT_EQ(::write(stop[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(user, &status, 0), user);
  EXPECT_EQ(status, 0) << "an entry in use was evicted";
  EXPECT_LE(store_stats(writer, kept_.log()).bytes, bounded.max_bytes + 8 * static_cast<int64_t>(kBytes) * 101 / 100);
  EXPECT_GE(writer.counters().evicted, 40);
  EXPECT_TRUE(holds(writer, test_key(159)));
  EXPECT_FALSE(holds(writer, test_key(100)));
}

TEST_F(CacheStore, D15_ManyEntriesCostFewScans) {
  Store store(options());
  for (int i = 0; i < 100; ++i) publish(store, test_key(i), 10);
  EXPECT_EQ(store.counters().sweeps, 1);
  Store next(options());  // another process, soon after
  publish(next, test_key(1000), 10);
  EXPECT_EQ(next.counters().sweeps, 0);
}

TEST_F(CacheStore, TheSweeperSparesTheYoungAndIsNotFooledByTheClock) {
  Store store(options());
  for (int i = 0; i < 3; ++i) publish(store, test_key(i));
  set_age(file_of(test_key(0)), seconds(60));
  set_age(file_of(test_key(1)), seconds(-10 * 86400));  // ten days ahead
  SweepAges ages;
  const int fd = store.live(kept_.log())->fd.get();
  EXPECT_EQ(sweep_folder(FileOps::system(), fd, {0, 0, {}}, ages).evicted, 2);
  EXPECT_TRUE(holds(store, test_key(2)));
}

TEST_F(CacheStore, AHeldLockDelaysSweepingUntilItIsOld) {
  StoreOptions bounded = options();
  bounded.max_bytes = 3000;
  Store store(bounded);
  publish(store, test_key(0), 1000);
  const Fd held(::open((folder() + "/" + kSweepFile).c_str(), O_RDWR));
  ASSERT_EQ(FileOps::system().lock(held.get()), 0);
  const int64_t sweeps = store.counters().sweeps;
  for (int i = 1; i < 20; ++i) publish(store, test_key(i), 1000);
  EXPECT_EQ(store.counters().sweeps, sweeps);
  set_age(folder() + "/" + kSweepFile, seconds(4000));
  publish(store, test_key(20), 1000);
  EXPECT_EQ(store.counters().sweeps, sweeps + 1);
  EXPECT_LE(store_stats(store, kept_.log()).bytes, 3000);
}

TEST_F(CacheStore, NearestEntryAndItsDifferences) {
  Store store(options());
  const auto put = [&](const KeyFields& fields) {
    const Key key = Key::of(EntryKind::Shape, fields);
    store.publish(key, test_entry(key), false, kept_.log());
  };
  put({{"mode", "default"}, {"features", "+a,+b,-c"}, {"rule", "one\ntwo\nthree"}});
  put({{"mode", "strict"}, {"features", "-a,-b,-c"}, {"rule", "other"}});
  const auto entries = list_entries(store, kept_.log());
  const auto nearest = nearest_entry(entries, EntryKind::Shape,
                                     {{"mode", "default"}, {"features", "+a,-b,-c"}, {"rule", "one\n2\nthree"}});
  ASSERT_TRUE(nearest);
  ASSERT_EQ(nearest->differences.size(), 2u);
  EXPECT_EQ(nearest->differences[0].text(), "features: the entry has '+b', wanted is '-b'");
  EXPECT_EQ(nearest->differences[1].text(), "rule, line 2: the entry has 'two', wanted is '2'");
  EXPECT_FALSE(nearest_entry(entries, EntryKind::Kernel, {}));
  EXPECT_THAT(show_entry(store, "", kept_.log()).error().message, HasSubstr("2 entries"));
  EXPECT_EQ(show_entry(store, entries[0].hash.substr(0, 8), kept_.log())->listed.fields, entries[0].fields);
}

}  // namespace
}  // namespace stepfuse::runtime
