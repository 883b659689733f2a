// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cache_folder.h"

#include "runtime/cache/folder.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace stepfuse::runtime {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::KeptLog;
using tests::TemporaryFolder;

mode_t mode_of(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

Result<CacheFolder> open_live(const std::string& path) {
  return open_cache_folder(path, FolderRole::Live, ::geteuid());
}

void expect_refused(const std::string& path, std::string_view why, FolderRole role = FolderRole::Live) {
  const auto folder = open_cache_folder(path, role, ::geteuid());
  ASSERT_FALSE(folder) << path;
  EXPECT_EQ(folder.error().code, StatusCode::Environment) << folder.error().message;
  EXPECT_THAT(folder.error().message, HasSubstr(std::string(why)));
  EXPECT_FALSE(folder.error().hint.empty());
}

TEST(CacheFolder, IsMadeForItsOwnerAlone) {
  const TemporaryFolder top;
  const auto folder = open_live(top / "a/b/stepfuse");
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_EQ(folder->path, top / "a/b/stepfuse");
  EXPECT_EQ(mode_of(top / "a"), 0700u);
  EXPECT_EQ(mode_of(folder->path), 0700u);
}

TEST(CacheFolder, ReadOnlyMakesNothing) {
  const TemporaryFolder top;
  const auto folder = open_cache_folder(top / "a/stepfuse", FolderRole::LiveReadOnly, ::geteuid());
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, StatusCode::NotFound);
  EXPECT_TRUE(fs::is_empty(top.path()));
}

TEST(CacheFolder, D09_WritableByOthersIsRefused) {
  const TemporaryFolder top;
  for (const mode_t mode : {0770, 0707, 01777}) {
    fs::create_directories(top / "c");
    ASSERT_EQ(::chmod((top / "c").c_str(), mode), 0);
    expect_refused(top / "c", "writable by others");
    expect_refused(top / "c", "writable by others", FolderRole::Layer);
  }
}

TEST(CacheFolder, D09_SymbolicLinkIsRefusedButNotAboveTheFolder) {
  const TemporaryFolder top;
  fs::create_directories(top / "real");
  fs::create_directory_symlink(top / "real", top / "link");
  expect_refused(top / "link", "is a symbolic link");
  expect_refused(top / "link/", "is a symbolic link");
  const auto below = open_live(top / "link/stepfuse");
  ASSERT_TRUE(below) << below.error().message;
  EXPECT_EQ(below->path, top / "real/stepfuse");
}

TEST(CacheFolder, D09_FolderThatAllMayExchangeIsRefused) {
  const TemporaryFolder top;
  fs::create_directories(top / "tmp");
  ASSERT_EQ(::chmod((top / "tmp").c_str(), 0777), 0);
  expect_refused(top / "tmp/stepfuse", "no sticky bit");
  ASSERT_EQ(::chmod((top / "tmp").c_str(), 01777), 0);
  EXPECT_TRUE(open_live(top / "tmp/stepfuse"));
}

TEST(CacheFolder, D09_ForeignOwnerIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const TemporaryFolder top;
  constexpr uid_t kOther = 4711;
  fs::create_directories(top / "theirs/ours");
  ASSERT_EQ(::chown((top / "theirs").c_str(), kOther, kOther), 0);
  expect_refused(top / "theirs", "belongs to user 4711");
  expect_refused(top / "theirs/ours", "belongs to user 4711");
  expect_refused(top / "theirs/ours", "belongs to user 4711", FolderRole::Layer);
  // For that user root's folder is good as a layer only.
  ASSERT_EQ(::chown((top / "theirs").c_str(), 0, 0), 0);
  EXPECT_TRUE(open_cache_folder(top / "theirs", FolderRole::Layer, kOther));
  EXPECT_FALSE(open_cache_folder(top / "theirs", FolderRole::LiveReadOnly, kOther));
}

TEST(CacheFolder, AFileIsNoFolder) {
  const TemporaryFolder top;
  tests::write_file(top / "file", "x");
  expect_refused(top / "file", "is not a folder");
  expect_refused("/", "cannot be a cache folder");
}

TEST(CacheFolder, OrderOfPlaces) {
  EXPECT_THAT(live_folder_candidates("/set", {"/xdg", "/home/u", "/t", 5}), ElementsAre("/set"));
  EXPECT_THAT(live_folder_candidates("", {"/xdg", "/home/u", "/t", 5}), ElementsAre("/xdg/stepfuse", "/t/stepfuse-5"));
  EXPECT_THAT(live_folder_candidates("", {"xdg", "/home/u", "", 5}),
              ElementsAre("/home/u/.cache/stepfuse", "/tmp/stepfuse-5"));
  EXPECT_THAT(live_folder_candidates("", {"", "", "relative", 5}), ElementsAre("/tmp/stepfuse-5"));
}

TEST(CacheFolder, WithoutHomeTheTemporaryFolderServesWithOneWarning) {
  const TemporaryFolder top;
  const CacheEnvironment environment{"", "", top.path().string(), ::geteuid()};
  const KeptLog kept;
  for (int i = 0; i < 2; ++i) {
    const auto folder = open_live_folder("", environment, FolderRole::Live, kept.log());
    ASSERT_TRUE(folder) << folder.error().message;
    EXPECT_EQ(folder->path, top / fmt::format("stepfuse-{}", ::geteuid()));
  }
  EXPECT_EQ(kept.count("HOME is not set"), 1) << kept.all();
}

TEST(CacheFolder, AHomeThatCannotHoldItFallsBackAndAnUntrustedOneDoesNot) {
  const TemporaryFolder top;
  tests::write_file(top / "home", "a file, so nothing can be made below it");
  const KeptLog kept;
  const auto refused =
      open_live_folder("", {"", top / "home", top.path().string(), ::geteuid()}, FolderRole::Live, kept.log());
  EXPECT_FALSE(refused);
  const auto fallback =
      open_live_folder("", {"/proc/none", "", top.path().string(), ::geteuid()}, FolderRole::Live, kept.log());
  ASSERT_TRUE(fallback) << fallback.error().message;
  fs::create_directories(top / "xdg/stepfuse");
  ASSERT_EQ(::chmod((top / "xdg/stepfuse").c_str(), 0777), 0);
  EXPECT_FALSE(open_live_folder("", {top / "xdg", "", top.path().string(), ::geteuid()}, FolderRole::Live, kept.log()));
  EXPECT_EQ(kept.count("in memory only"), 1) << kept.all();
}

}  // namespace
}  // namespace stepfuse::runtime
