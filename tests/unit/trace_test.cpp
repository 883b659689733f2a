// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug/trace.h"

#include "tests/unit/debug_fixture.h"

#include <algorithm>
#include <set>
#include <sys/wait.h>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace stepfuse::runtime {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using namespace test;  // NOLINT: fixtures

struct Scope {
  std::string category;
  double begin, end;
  int thread;
  bool contains(const Scope& other) const { return begin <= other.begin && other.end <= end; }
};

std::vector<Scope> scopes_of(const json& file) {
  std::vector<Scope> out;
  for (const json& event : file.at("traceEvents")) {
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_EQ(event.at("pid"), ::getpid());
    const double begin = event.at("ts");
    const double duration = event.at("dur");
    EXPECT_GE(duration, 0);
    out.push_back({event.at("cat"), begin, begin + duration, event.at("tid")});
  }
  return out;
}

TEST(Trace, HoldsNestedScopesOfARun) {
  const TempFolder folder;
  {
    const auto context = make_context({{"trace", folder.path("t.json")}});
    // Options that no other test has, so that the kernel is new to the process.
    ASSERT_TRUE(run_steps(context, "adam", {1000}, {{"amsgrad", "true"}, {"maximize", "true"}}));
  }
  const json file = json::parse(folder.read("t.json"));
  EXPECT_EQ(file.at("otherData").at("dropped_events"), 0);
  const std::vector<Scope> scopes = scopes_of(file);
  const auto of = [&](const std::string& category) {
    std::vector<Scope> found;
    for (const Scope& scope : scopes)
      if (scope.category == category) found.push_back(scope);
    return found;
  };
  ASSERT_EQ(of("prepare").size(), 1U);
  ASSERT_EQ(of("plan").size(), 1U);
  ASSERT_EQ(of("compile").size(), 1U);
  ASSERT_EQ(of("load").size(), 1U);
  EXPECT_EQ(of("bind").size(), 1U);
  EXPECT_EQ(of("step").size(), 2U);
  for (const char* inner : {"plan", "cache lookup", "compile", "load"})
    for (const Scope& scope : of(inner)) EXPECT_TRUE(of("prepare")[0].contains(scope)) << inner;
  EXPECT_LE(of("plan")[0].end, of("compile")[0].begin);
  EXPECT_LE(of("compile")[0].end, of("load")[0].begin);
  EXPECT_LE(of("prepare")[0].end, of("bind")[0].begin);
  // On one thread, scopes lie inside or beside each other.
  for (const Scope& a : scopes)
    for (const Scope& b : scopes)
      if (a.thread == b.thread) {
        EXPECT_TRUE(a.contains(b) || b.contains(a) || a.end <= b.begin || b.end <= a.begin)
            << a.category << " " << b.category;
      }
}

TEST(Trace, SaysHowALookupEnded) {
  const TempFolder folder;
  {
    const auto context = make_context({{"trace", folder.path("t.json")}});
    ASSERT_TRUE(run_steps(context, "sgd", {1000}, {{"nesterov", "true"}, {"momentum", "0.5"}}));
    ASSERT_TRUE(run_steps(context, "sgd", {1000}, {{"nesterov", "true"}, {"momentum", "0.5"}}));
  }
  std::vector<std::string> results;
  const json file = json::parse(folder.read("t.json"));
  for (const json& event : file.at("traceEvents"))
    if (event.at("cat") == "cache lookup" || event.at("cat") == "compile")
      results.push_back(event.at("args").value("result", "compiled ") +
                        event.at("args").at("subject").get<std::string>());
  ASSERT_FALSE(results.empty());
  EXPECT_THAT(results.back(), HasSubstr("hit"));
  EXPECT_THAT(results.back(), HasSubstr("stepfuse_sgd_update_f32"));
}

TEST(Trace_Threads, RecordAtTheSameTime) {
  const TempFolder folder;
  Trace trace(folder.path("t.json"));
  constexpr int kEvents = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&trace] {
      for (int i = 0; i < kEvents; ++i) TraceScope scope(&trace, "work", "a name of its own");
    });
  // Writing while others record gives a whole file too.
  trace.write(Log());
  EXPECT_TRUE(json::accept(folder.read("t.json")));
  for (std::thread& thread : threads) thread.join();
  trace.write(Log());
  const json file = json::parse(folder.read("t.json"));
  EXPECT_EQ(file.at("traceEvents").size(), 4U * kEvents);
  std::set<int> ids;
  for (const json& event : file.at("traceEvents")) ids.insert(event.at("tid").get<int>());
  EXPECT_EQ(ids.size(), 4U);
}

TEST(Trace, IsBoundedAndSaysWhatItDropped) {
  const TempFolder folder;
  Trace trace(folder.path("t.json"));
  const auto now = Trace::Clock::now();
  for (size_t i = 0; i < Trace::kCapacity + 7; ++i) trace.record("step", "", nullptr, now, now);
  trace.write(Log());
  const std::string text = folder.read("t.json");
  EXPECT_THAT(text.substr(0, 200), HasSubstr("\"dropped_events\": 7"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<int64_t>(Trace::kCapacity) + 4);
}

TEST(Trace, TakesAnyName) {
  const TempFolder folder;
  Trace trace(folder.path("t.json"));
  const std::string nasty = "a \"quote\", a \\ and \x01 and \xff and " + std::string(200, 'x') + "\xc3\xa9";
  {
    const TraceScope scope(&trace, "compile", nasty);
  }
  trace.write(Log());
  const json file = json::parse(folder.read("t.json"));
  EXPECT_THAT(file.at("traceEvents").at(0).at("args").at("subject").get<std::string>(), HasSubstr("a \"quote\""));
}

TEST(Trace, AProcessThatExitsLeavesAWholeFile) {
  const TempFolder folder;
  const std::string path = folder.path("t.%p.json");
  const pid_t child = ::fork();
  if (child == 0) {
    Trace* trace = Trace::open(path, Log());
    {
      const TraceScope scope(trace, "step");
    }
    std::exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const json file = json::parse(folder.read(fmt::format("t.{}.json", child)));
  EXPECT_EQ(file.at("traceEvents").size(), 1U);
}

TEST(Trace, AFileThatCannotBeWrittenIsAWarning) {
  const TempFolder folder;
  const auto context = make_context({{"trace", folder.path("gone/t.json")}});
  EXPECT_EQ(context.context->trace(), nullptr);
  EXPECT_EQ(context.count("cannot be written"), 1);
  EXPECT_TRUE(run_steps(context, "sgd", {10}));
}

TEST(Disable, IsCheckedWithTheNearestName) {
  Context::Options options;
  options.environment.push_back("STEPFUSE_DISABLE=fuze");
  const auto context = Context::create(options);
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().code, StatusCode::InvalidArgument);
  EXPECT_THAT(context.error().message, HasSubstr("there is no pass 'fuze'"));
  EXPECT_THAT(context.error().hint, HasSubstr("did you mean 'fuse'?"));
}

}  // namespace
}  // namespace stepfuse::runtime
