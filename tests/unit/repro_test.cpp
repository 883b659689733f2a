// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug/repro.h"

#include "tests/unit/debug_fixture.h"

#include <cstdlib>
#include <sstream>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using namespace test;  // NOLINT: fixtures

/// An optimizer as prepare() sees it.
struct Prepared {
  explicit Prepared(const TempFolder& folder) : logged(make_context({{"dump_dir", folder.path("dumps")}})) {
    OptimizerSettings settings;
    settings.context = logged.context;
    Optimizer optimizer = Optimizer::create(settings).value();
    const uint32_t matrices = optimizer.add_group("muon", {}).value();
    EXPECT_TRUE(optimizer.add_parameter(matrices, "w", {{8, 12}}));
    const uint32_t rest = optimizer.add_group("adamw", {}).value();
    EXPECT_TRUE(optimizer.add_parameter(rest, "b", {{12}}));
    parameters = optimizer.planned();
    plan = compiler::make_plan(parameters, options).value();
  }

  LoggedContext logged;
  std::vector<compiler::PlannedParameter> parameters;
  compiler::PlanOptions options;
  compiler::StepPlan plan;
  ReproInput input() const { return {*logged.context, parameters, plan, options}; }
};

/// The one report under dump_dir, relative to the test's folder.
std::string report_of(const TempFolder& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("dumps")))
    found.push_back("dumps/" + entry.path().filename().string());
  EXPECT_THAT(found, SizeIs(1));
  return found.at(0);
}

std::vector<std::string> files_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) names.push_back(entry.path().filename());
  return names;
}

TEST(Repro, AnInternalErrorLeavesAReportThatReplays) {
  const TempFolder folder;
  const Prepared prepared(folder);
  const Outcome outcome =
      with_repro(prepared.input(), [] { return Outcome(fail(StatusCode::Internal, "LLVM refused kernel x: y")); });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, StatusCode::Internal);
  const std::string report = report_of(folder);
  EXPECT_THAT(outcome.error().message, HasSubstr("LLVM refused kernel x: y; a report is in " + folder.path(report)));
  struct stat info{};
  ASSERT_EQ(::stat(folder.path(report).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  EXPECT_THAT(folder.read(report + "/error.txt"), HasSubstr("LLVM refused kernel x: y"));
  EXPECT_THAT(folder.read(report + "/settings.txt"), HasSubstr("dump_dir = " + folder.path("dumps") + "  (flag"));
  EXPECT_THAT(folder.read(report + "/versions.txt"), HasSubstr("LLVM 19"));
  EXPECT_THAT(folder.read(report + "/kernels.txt"), HasSubstr("kernel \"stepfuse_adamw_update_f32\""));
  EXPECT_THAT(folder.read(report + "/stepfuse_adamw_update_f32.ll"), HasSubstr("define dso_local void"));
  EXPECT_THAT(folder.read(report + "/plan.txt"), HasSubstr("plan: 2 groups"));
  EXPECT_THAT(files_in(folder.path(report)), Contains(EndsWith(".naive.sfir")).Times(2));
  // Each command of the README is run as it stands, with this build's program.
  std::istringstream readme(folder.read(report + "/README.txt"));
  int replayed = 0;
  for (std::string line; std::getline(readme, line);) {
    if (!line.starts_with("stepfuse ")) continue;
    const std::string command = fmt::format("cd '{}' && '{}' {} > /dev/null 2>&1", folder.path(report), STEPFUSE_BINARY,
                                            line.substr(std::string_view("stepfuse ").size()));
    EXPECT_EQ(std::system(command.c_str()), 0) << line;
    ++replayed;
  }
  EXPECT_EQ(replayed, 2);
}

TEST(Repro, ABrokenInvariantIsReportedToo) {
  const TempFolder folder;
  Prepared prepared(folder);
  prepared.plan = {};
  const Outcome outcome = with_repro(prepared.input(), []() -> Outcome {
    STEPFUSE_CHECK(false, "clusters of {} wait for each other", "sgd");
    return {};
  });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, StatusCode::Internal);
  EXPECT_THAT(outcome.error().message, HasSubstr("clusters of sgd wait for each other"));
  // There was no plan yet; the rules are what is left to look at.
  EXPECT_THAT(files_in(folder.path(report_of(folder))), Contains(EndsWith(".naive.sfir")).Times(2));
}

TEST(Repro, TheUsersErrorsLeaveNone) {
  const TempFolder folder;
  const Prepared prepared(folder);
  const Outcome outcome =
      with_repro(prepared.input(), [] { return Outcome(fail(StatusCode::InvalidArgument, "lr=x is not legal")); });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message, "lr=x is not legal");
  EXPECT_FALSE(std::filesystem::exists(folder.path("dumps")));
  EXPECT_TRUE(with_repro(prepared.input(), [] { return Outcome{}; }));
}

TEST(Repro, ReportsOfOneSecondDoNotMix) {
  const TempFolder folder;
  const Prepared prepared(folder);
  const Status first = write_repro(prepared.input(), {StatusCode::Internal, "first", {}});
  const Status second = write_repro(prepared.input(), {StatusCode::Internal, "second", {}});
  EXPECT_THAT(files_in(folder.path("dumps")), SizeIs(2));
  EXPECT_NE(first.message.substr(first.message.find("report")), second.message.substr(second.message.find("report")));
}

TEST(Repro, WithoutAFolderTheErrorStands) {
  const TempFolder folder;
  const Prepared prepared(folder);
  folder.write("dumps", "a file in the way");
  const Status status = write_repro(prepared.input(), {StatusCode::Internal, "the cause", "a hint"});
  EXPECT_THAT(status.message, HasSubstr("the cause; no report could be written"));
  EXPECT_EQ(status.hint, "a hint");
}

}  // namespace
}  // namespace stepfuse::runtime
