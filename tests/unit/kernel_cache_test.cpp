// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/inspect.h"
#include "runtime/cpu/compiler_identity.h"
#include "runtime/cpu/cpu_kernels.h"
#include "tests/support/cache_folder.h"

#include <atomic>
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace stepfuse::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using tests::files_below;
using tests::KeptLog;
using tests::TemporaryFolder;

using Flight = SingleFlight<int>;

TEST(SingleFlight, ThreadsThatAskAtOnceMakeOnce) {
  Flight flight(100);
  std::atomic<int> made = 0;
  std::latch all(8);
  std::vector<std::thread> threads;
  std::vector<Result<Flight::Pointer>> results(8);
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      all.arrive_and_wait();
      bool mine = false;
      results[t] = flight.get(
          "key",
          [&]() -> Result<Flight::Pointer> {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            return std::make_shared<const int>(++made);
          },
          mine);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  for (const auto& result : results) EXPECT_EQ(*result, *results.front());
}

TEST(SingleFlight, AnErrorAndAnExceptionReachAllThreadsAndTheNextRequestTriesAgain) {
  for (const bool throws : {false, true}) {
    Flight flight(100);
    std::atomic<int> calls = 0, failures = 0;
    std::latch all(4);
    const auto ask = [&] {
      all.arrive_and_wait();
      bool mine = false;
      try {
        const auto result = flight.get(
            "key",
            [&]() -> Result<Flight::Pointer> {
              ++calls;
              std::this_thread::sleep_for(std::chrono::milliseconds(50));
              if (throws) throw std::runtime_error("broken");
              return fail(StatusCode::Failed, "broken");
            },
            mine);
        failures += !result && result.error().message == "broken" ? 1 : 0;
      } catch (const std::runtime_error&) {
        ++failures;
      }
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) threads.emplace_back(ask);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failures, 4);
    EXPECT_LT(calls, 4);
    EXPECT_EQ(flight.held(), 0u);
    bool mine = false;
    const auto next =
        flight.get("key", []() -> Result<Flight::Pointer> { return std::make_shared<const int>(7); }, mine);
    EXPECT_EQ(**next, 7);
    EXPECT_TRUE(mine);
  }
}

TEST(SingleFlight, DropsWhatNobodyUses) {
  Flight flight(2);
  bool mine = false;
  const auto make = [] { return Result<Flight::Pointer>(std::make_shared<const int>(1)); };
  const auto used = flight.get("used", make, mine).value();
  for (const char* key : {"a", "b", "c"}) (void)flight.get(key, make, mine);
  EXPECT_LE(flight.held(), 2u);
  EXPECT_EQ(flight.get("used", make, mine).value(), used);
}

/// Real kernels through a cache of its own.
class Kernels : public testing::Test {
 protected:
  std::shared_ptr<const Context> context(const std::string& jit = "on") {
    Context::Options options;
    options.flags = {{"jit", jit, "test"}, {"cache", "off", "test"}};
    options.environment = {};
    options.log = [](LogLevel, std::string_view) {};
    return Context::create(options).value();
  }
  std::unique_ptr<KernelCache> cache() { return std::make_unique<KernelCache>(tests::store_options(folder())); }
  std::string folder() const { return top_ / "cache"; }

  /// The only entry of the folder, its metadata changed by `change`.
  template <class Change>
  void change_metadata(Change change) {
    const auto files = files_below(folder());
    ASSERT_EQ(files.size(), 1u);
    const std::string bytes = tests::read_file(files.front());
    Entry entry = decode(std::as_bytes(std::span(bytes))).value();
    auto json = nlohmann::json::parse(entry.metadata);
    change(json);
    entry.metadata = json.dump();
    const auto encoded = encode(entry).value();
    tests::write_file(files.front(), {reinterpret_cast<const char*>(encoded.data()), encoded.size()});
  }

  /// What one program finds.
  Result<FoundCpuKernel> find(const codegen::KernelSpec& spec, const std::string& jit = "on") {
    cache_ = cache();
    return find_cpu_kernel(*cache_, *context(jit), spec, target_);
  }

  const TemporaryFolder top_;
  const CpuTarget target_ = cpu_target("x86-64-v3").value();
  std::unique_ptr<KernelCache> cache_;
};

codegen::KernelSpec doubled(const std::string& name, double factor = 2) {
  codegen::KernelSpec spec;
  spec.name = name;
  spec.args = {{"x", ir::DType::F32, {false, false, true}, true, true}};
  codegen::Operand x{codegen::Operand::Kind::Arg, 0, 0};
  codegen::Operand c{codegen::Operand::Kind::Const, 0, factor};
  spec.instrs = {{"y", ir::Op::Mul, ir::DType::F32, ir::DType::F32, {false, false, true}, {x, c}}};
  spec.stores = {{{codegen::Operand::Kind::Instr, 0, 0}, 0}};
  return spec;
}

float run_on(const FoundCpuKernel& found, float x) {
  void* args[] = {&x};
  const codegen::KernelCall call{args, nullptr, {1, 1, 1}, nullptr, nullptr};
  found.kernel->function()(&call, 0, 0, 1);
  return x;
}

TEST_F(Kernels, CompiledOnceThenFromDiskThenFromMemory) {
  if (!check_runs_here(target_)) GTEST_SKIP() << "needs AVX2";
  const auto first = find(doubled("a"));
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->origin, KernelOrigin::Compiled);
  EXPECT_EQ(run_on(*first, 3), 6);
  const auto second = find(doubled("a"));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->origin, KernelOrigin::Disk);
  EXPECT_EQ(run_on(*second, 3), 6);
  EXPECT_EQ(find_cpu_kernel(*cache_, *context(), doubled("a"), target_)->origin, KernelOrigin::Memory);
  const CacheMetrics metrics = cache_->metrics();
  EXPECT_EQ(metrics.disk_hits, 1);
  EXPECT_EQ(metrics.memory_hits, 1);
  EXPECT_EQ(metrics.compiled, 0);
}

TEST_F(Kernels, TheSameTextUnderAnotherNameIsTheSameEntry) {
  if (!check_runs_here(target_)) GTEST_SKIP() << "needs AVX2";
  ASSERT_TRUE(find(doubled("a")));
  const auto other = find(doubled("b"));
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->origin, KernelOrigin::Disk);
  EXPECT_EQ(run_on(*other, 3), 6);
}

TEST_F(Kernels, D14_OneNameAndTwoTexts) {
  if (!check_runs_here(target_)) GTEST_SKIP() << "needs AVX2";
  EXPECT_EQ(run_on(find(doubled("k", 2)).value(), 3), 6);
  EXPECT_EQ(run_on(find(doubled("k", 100)).value(), 3), 300);
  codegen::KernelSpec narrow = doubled("k");
  narrow.args[0].dtype = ir::DType::F16;
  EXPECT_NE(cpu_kernel_key(narrow, target_), cpu_kernel_key(doubled("k"), target_));
}

TEST_F(Kernels, EntriesSurviveMovingTheCacheFolder) {
  ASSERT_TRUE(find(doubled("a")));
  fs::rename(folder(), top_ / "moved");
  KernelCache moved(tests::store_options(top_ / "moved"));
  EXPECT_EQ(find_cpu_kernel(moved, *context("off"), doubled("a"), target_)->origin, KernelOrigin::Disk);
  const std::string bytes = tests::read_file(files_below(top_ / "moved").front());
  EXPECT_THAT(decode(std::as_bytes(std::span(bytes)))->preimage, testing::Not(HasSubstr(top_.path().string())));
}

TEST_F(Kernels, D12_AnotherPluginOrAnotherLlvmIsAMissThatReplaces) {
  for (const char* field : {"plugin", "llvm_bytes", "llvm_time"}) {
    ASSERT_TRUE(find(doubled("a")));
    change_metadata([&](nlohmann::json& json) {
      if (json[field].is_string()) {
        json[field] = "00";
      } else {
        json[field] = json[field].get<int64_t>() + 1;
      }
    });
    EXPECT_EQ(find(doubled("a"))->origin, KernelOrigin::Compiled) << field;
    EXPECT_EQ(find(doubled("a"))->origin, KernelOrigin::Disk) << field;
  }
  // A layer serves whatever compiled it.
  change_metadata([](nlohmann::json& json) { json["plugin"] = "00"; });
  StoreOptions layered = tests::store_options(top_ / "other");
  layered.layers = {folder()};
  KernelCache cache(layered);
  EXPECT_EQ(find_cpu_kernel(cache, *context("off"), doubled("a"), target_)->origin, KernelOrigin::Layer);
}

TEST_F(Kernels, D12_TheLibrarysVersionIsPartOfTheKey) {
  EXPECT_THAT(cpu_kernel_key(doubled("a"), target_), HasSubstr("library: " + library_build() + "\n"));
}

TEST_F(Kernels, AnObjectThatCannotBeLoadedIsDamage) {
  ASSERT_TRUE(find(doubled("a")));
  change_metadata([](nlohmann::json& json) { json["symbol"] = "absent"; });
  EXPECT_EQ(find(doubled("a"))->origin, KernelOrigin::Compiled);
  EXPECT_EQ(cache_->metrics().damaged, 1);
  EXPECT_EQ(find(doubled("a"))->origin, KernelOrigin::Disk);
}

TEST_F(Kernels, WithoutJitAMissNamesKernelReasonAndNearestEntry) {
  ASSERT_TRUE(find(doubled("a", 2)));
  const auto refused = find(doubled("b", 100), "off");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, StatusCode::Environment);
  const Key key = Key::of(EntryKind::Kernel, cpu_kernel_fields(doubled("b", 100), target_));
  EXPECT_THAT(refused.error().message,
              testing::AllOf(HasSubstr("kernel b"), HasSubstr(key.hash.hex()), HasSubstr("no entry has this key"),
                             HasSubstr("differs in kernel, line 3")));
  EXPECT_THAT(refused.error().hint, HasSubstr("STEPFUSE_CACHE_PATH"));
  EXPECT_EQ(find(doubled("b", 2), "off")->origin, KernelOrigin::Disk);
}

TEST_F(Kernels, F01_AnEntryForAvx512IsAMissOnAMachineWithoutIt) {
  const CpuTarget wide = cpu_target("x86-64-v4").value();
  ASSERT_TRUE(find_cpu_kernel(*cache(), *context(), doubled("a"), wide));
  const auto narrow = find(doubled("a"), "off");
  ASSERT_FALSE(narrow);
  EXPECT_THAT(narrow.error().message, HasSubstr("features: the entry has '+avx512f"));
}

TEST(CompilerIdentity, IsTheBuildIdWhereverTheFileLies) {
  const TemporaryFolder top;
  const std::string plugin = cpu_plugin_file("").value().string();
  ASSERT_FALSE(plugin.empty());
  const std::string identity = file_identity(plugin);
  EXPECT_GE(identity.size(), 32u);
  fs::copy_file(plugin, top / "moved.so");
  EXPECT_EQ(file_identity(top / "moved.so"), identity);
  tests::write_file(top / "a", "not ELF");
  tests::write_file(top / "b", "not ELF either");
  EXPECT_NE(file_identity(top / "a"), file_identity(top / "b"));
  EXPECT_EQ(file_identity(top / "absent"), "");
  for (const size_t size : {20u, 64u, 300u}) {  // cut short: no build id, no crash
    tests::write_file(top / "cut", tests::read_file(plugin).substr(0, size));
    EXPECT_NE(file_identity(top / "cut"), identity);
  }
}

}  // namespace
}  // namespace stepfuse::runtime
