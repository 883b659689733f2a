// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug/dump.h"

#include "ir/parse.h"
#include "ir/print.h"
#include "tests/unit/debug_fixture.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace stepfuse::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using namespace test;  // NOLINT: fixtures

LoggedContext dumping(const std::string& stages, const std::string& folder) {
  return make_context({{"dump", stages}, {"dump_dir", folder}});
}

TEST(Dump, WritesEveryStageUnderStableNames) {
  const TempFolder folder;
  const std::string out = folder.path("new/dump");
  for (int round = 0; round < 2; ++round) {
    // In the second round the process has the kernel already.
    const auto context = dumping("ir,plan,llvm,asm", out);
    ASSERT_TRUE(run_steps(context, "adamw", {1000}));
    EXPECT_THAT(*context.messages, testing::IsEmpty());
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(out)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    EXPECT_THAT(names, ElementsAre(MatchesRegex("adamw\\.[0-9a-f]{8}\\.fused\\.sfir"),
                                   MatchesRegex("adamw\\.[0-9a-f]{8}\\.naive\\.sfir"), "plan.txt",
                                   "stepfuse_adamw_update_f32.ll", "stepfuse_adamw_update_f32.s"));
    if (round == 0)
      for (const std::string& name : names) std::filesystem::resize_file(out + "/" + name, 0);
  }
  struct stat info{};
  ASSERT_EQ(::stat(out.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  EXPECT_THAT(folder.read("new/dump/plan.txt"), HasSubstr("plan: 1 groups, 1 launches"));
  EXPECT_THAT(folder.read("new/dump/stepfuse_adamw_update_f32.ll"), HasSubstr("define dso_local void"));
  EXPECT_THAT(folder.read("new/dump/stepfuse_adamw_update_f32.s"), HasSubstr(".globl\tstepfuse_adamw_update_f32"));
}

TEST(Dump, WritesTheStagesAskedFor) {
  const TempFolder folder;
  ASSERT_TRUE(run_steps(dumping("plan", folder.path()), "adamw", {1000}));
  EXPECT_THAT(folder.files(), ElementsAre("plan.txt"));
}

TEST(Dump, GraphsReadBack) {
  const TempFolder folder;
  ASSERT_TRUE(run_steps(dumping("ir", folder.path()), "muon", {8, 12}));
  ASSERT_EQ(folder.files().size(), 2U);
  for (const std::string& file : folder.files()) {
    const auto graph = ir::parse(folder.read(file), file);
    ASSERT_TRUE(graph) << graph.error().message;
    EXPECT_EQ(ir::print(*graph), folder.read(file));
  }
}

TEST(Dump, TheInterpreterHasNoKernels) {
  const TempFolder folder;
  ASSERT_TRUE(run_steps(dumping("plan,llvm,asm", folder.path()), "adamw", {1000}, {}, "interp"));
  EXPECT_THAT(folder.files(), ElementsAre("plan.interp.txt"));
}

/// A dump into the override folder must not destroy what a person edited.
TEST(Dump, LeavesEditedKernelsAlone) {
  const TempFolder folder;
  const std::string text =
      "define void @stepfuse_sgd_update_f32(ptr %call, i64 %unit, i64 %begin, i64 %end) {\n  ret void\n}\n";
  folder.write("stepfuse_sgd_update_f32.ll", text);
  const auto context =
      make_context({{"dump", "llvm,asm"}, {"dump_dir", folder.path()}, {"override_dir", folder.path()}});
  ASSERT_TRUE(run_steps(context, "sgd", {1000}));
  EXPECT_EQ(folder.read("stepfuse_sgd_update_f32.ll"), text);
  EXPECT_THAT(folder.read("stepfuse_sgd_update_f32.s"), HasSubstr("retq"));
}

TEST(Dump, AFolderThatCannotBeWrittenIsOneWarning) {
  const TempFolder folder;
  folder.write("file", "in the way");
  const auto context = dumping("ir,plan,llvm,asm", folder.path("file/dump"));
  ASSERT_TRUE(run_steps(context, "adamw", {1000}));
  ASSERT_TRUE(run_steps(context, "adamw", {1000}));
  ASSERT_EQ(context.messages->size(), 1U);
  EXPECT_THAT(context.messages->front(), HasSubstr("warn: the dump is incomplete"));
}

}  // namespace
}  // namespace stepfuse::runtime
