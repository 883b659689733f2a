// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// The command's second run takes every kernel from the cache on disk, and gives the same bytes.
#include "tests/e2e/cli_harness.h"
#include "tests/support/cache_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::e2e {
namespace {

using testing::HasSubstr;

class CacheRun : public testing::Test {
 protected:
  CacheRun() {
    cli_.write("p.safetensors", {{"w", random_f32({24, 40}, 1)}, {"b", random_f32({40}, 2)}});
    cli_.write("g.safetensors", {{"w", random_f32({24, 40}, 3)}, {"b", random_f32({40}, 4)}});
  }
  CommandResult run(const std::string& out, const std::string& more = "") {
    return cli_.run("run --params p.safetensors --grads g.safetensors -v --out " + out + " " + more);
  }

  const tests::TemporaryFolder top_;
  const CliFolder cli_;
  const WithVariable on_{"STEPFUSE_CACHE", "on"};
  const WithVariable folder_{"STEPFUSE_CACHE_DIR", top_ / "cache"};
};

TEST_F(CacheRun, TheSecondRunCompilesNothingAndGivesTheSameBytes) {
  const CommandResult first = run("1.safetensors");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, testing::Not(HasSubstr(" 0 kernels compiled")));
  const WithVariable off("STEPFUSE_JIT", "off");
  const CommandResult second = run("2.safetensors");
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr(" 0 kernels compiled"));
  EXPECT_EQ(cli_.read("1.safetensors"), cli_.read("2.safetensors"));
}

TEST_F(CacheRun, D04_DamagedEntriesChangeNothingButTheTimeItTakes) {
  ASSERT_EQ(run("1.safetensors").exit_code, 0);
  for (const auto& file : tests::files_below(top_ / "cache")) {
    std::string bytes = tests::read_file(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x10);
    tests::write_file(file, bytes);
  }
  EXPECT_EQ(cli_.run("cache verify").exit_code, 1);
  const CommandResult again = run("2.safetensors");
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("the checksum is wrong"));
  EXPECT_EQ(cli_.read("1.safetensors"), cli_.read("2.safetensors"));
  EXPECT_EQ(cli_.run("cache verify").exit_code, 0);
}

TEST_F(CacheRun, D09_AFolderThatIsNotToBeTrustedIsLeftAloneWithOneWarning) {
  std::filesystem::create_directory(top_ / "cache");
  std::filesystem::permissions(top_ / "cache", std::filesystem::perms::all);
  const CommandResult result = run("1.safetensors");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("writable by others"));
  EXPECT_TRUE(std::filesystem::is_empty(top_ / "cache"));
  EXPECT_EQ(cli_.run("cache ls").out, "");
}

TEST_F(CacheRun, ADifferentLearningRateNeedsNoOtherShapeEntry) {
  ASSERT_EQ(run("1.safetensors", "--recipe adamw --set lr=0.1").exit_code, 0);
  const size_t files = tests::files_below(top_ / "cache").size();
  ASSERT_EQ(run("2.safetensors", "--recipe adamw --set lr=0.2 --set betas=0.8,0.9").exit_code, 0);
  EXPECT_EQ(tests::files_below(top_ / "cache").size(), files);
}

}  // namespace
}  // namespace stepfuse::e2e
