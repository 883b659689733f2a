// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// `stepfuse aot`: a bundle made here serves a process that may compile nothing.
#include "stepfuse/stepfuse.hpp"
#include "tests/e2e/cli_harness.h"
#include "tests/support/cache_folder.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace stepfuse::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::json;

class Aot : public testing::Test {
 protected:
  Aot() {
    cli_.write("p.safetensors",
               {{"w", random_f32({24, 40}, 1)}, {"v", random_f32({40, 24}, 5)}, {"b", random_f32({40}, 2)}});
    cli_.write("g.safetensors",
               {{"w", random_f32({24, 40}, 3)}, {"v", random_f32({40, 24}, 6)}, {"b", random_f32({40}, 4)}});
  }
  CommandResult make(const std::string& bundle, const std::string& more = "--params p.safetensors --target cpu") {
    return cli_.run("aot -o " + bundle + " " + more);
  }
  CommandResult step(const std::string& out, const std::string& more = "") {
    return cli_.run("run --params p.safetensors --grads g.safetensors -v --out " + out + " " + more);
  }
  /// What a verify in JSON says is missing, as "kind name".
  std::vector<std::string> missing(const std::string& arguments) {
    const CommandResult result = cli_.run("aot verify --format json " + arguments);
    EXPECT_EQ(result.exit_code, 1) << result.err;
    std::vector<std::string> names;
    const Json answer = Json::parse(result.out, nullptr, false);
    if (!answer.is_object()) return {"no JSON: " + result.out};
    for (const Json& entry : answer["missing"])
      names.push_back(entry["kind"].get<std::string>() + " " + entry["name"].get<std::string>());
    return names;
  }
  /// Skips where nothing can compile for a device.
  bool has_nvrtc() {
    const CommandResult result = make("probe.sfb", "--recipe sgd --shape 8 --target sm_90");
    return result.exit_code == 0;
  }

  const tests::TemporaryFolder top_;
  const CliFolder cli_;
};

/// A process that may not compile and could not: it finds no plugin.
class WithBundle {
 public:
  WithBundle(const std::string& cache, const std::string& bundle)
      : folder_("STEPFUSE_CACHE_DIR", cache), path_("STEPFUSE_CACHE_PATH", bundle) {}

 private:
  const WithVariable on_{"STEPFUSE_CACHE", "on"};
  const WithVariable off_{"STEPFUSE_JIT", "off"};
  const WithVariable plugin_{"STEPFUSE_PLUGIN_DIR", "/nowhere"};
  const WithVariable folder_, path_;
};

TEST_F(Aot, ABundleServesAProcessThatCannotCompile) {
  ASSERT_EQ(step("1.safetensors").exit_code, 0);
  const CommandResult made = make("k.sfb");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const WithBundle only(top_ / "cache", cli_.path("k.sfb"));
  const CommandResult second = step("2.safetensors");
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr(" 0 kernels compiled"));
  EXPECT_EQ(cli_.read("1.safetensors"), cli_.read("2.safetensors"));
  // Everything was there, shapes too: nothing was added to the user's own folder.
  EXPECT_TRUE(tests::files_below(top_ / "cache").empty());
}

TEST_F(Aot, AMissingKernelIsAnErrorThatNamesItsKeyAndTheNearest) {
  ASSERT_EQ(make("k.sfb").exit_code, 0);
  const WithBundle only(top_ / "cache", cli_.path("k.sfb"));
  const CommandResult strict = step("2.safetensors", "--mode strict");
  EXPECT_EQ(strict.exit_code, 3);
  EXPECT_THAT(strict.err, testing::ContainsRegex("kernel stepfuse_[a-z0-9_]+ \\([0-9a-f]{32}\\) must be compiled"));
  EXPECT_THAT(strict.err, HasSubstr("jit=off forbids it"));
  EXPECT_THAT(strict.err, HasSubstr("the nearest entry"));
  EXPECT_THAT(strict.err, HasSubstr("mode: the entry has 'default', wanted is 'strict'"));
  const CommandResult why = cli_.run("cache why-miss --params p.safetensors --mode strict");
  EXPECT_THAT(why.out, HasSubstr("mode: the entry has 'default', wanted is 'strict'"));
  EXPECT_EQ(cli_.files().size(), 3u) << "nothing was written";
}

TEST_F(Aot, TheSameInputsGiveTheSameBytesWhateverTheJobsAndTheCaches) {
  const std::string model = "--params p.safetensors --target x86-64-v3,x86-64-v4 ";
  ASSERT_EQ(make("1.sfb", model + "--jobs 1").exit_code, 0);
  ASSERT_EQ(make("4.sfb", model + "--jobs 4").exit_code, 0);
  EXPECT_EQ(cli_.read_text("1.sfb"), cli_.read_text("4.sfb"));
  const WithVariable on("STEPFUSE_CACHE", "on");
  const WithVariable folder("STEPFUSE_CACHE_DIR", top_ / "cache");
  ASSERT_EQ(step("1.safetensors", "--target x86-64-v3").exit_code, 0);
  ASSERT_EQ(make("warm.sfb", model).exit_code, 0);
  EXPECT_EQ(cli_.read_text("1.sfb"), cli_.read_text("warm.sfb"));
  // Metadata lies in a bundle as it is. Neither when, nor where, nor for how long.
  for (const char* trace : {STEPFUSE_SOURCE_DIR, "stepfuse_cpu_plugin", "libLLVM", "\"created\"", "_ms\"", "_time\""})
    EXPECT_EQ(cli_.read_text("1.sfb").find(trace), std::string::npos) << trace;
}

TEST_F(Aot, VerifyListsExactlyWhatIsMissing) {
  ASSERT_EQ(make("k.sfb", "--recipe adamw --shape 24x40 --target x86-64-v3").exit_code, 0);
  EXPECT_EQ(cli_.run("aot verify k.sfb --recipe adamw --shape 24x40 --target x86-64-v3").exit_code, 0);
  // Of a further shape only its own entry: an elementwise kernel serves every extent.
  EXPECT_THAT(missing("k.sfb --recipe adamw --shape 24x40 --shape 24x41 --target x86-64-v3"),
              ElementsAre("shape adamw 24x41 (p1)"));
  EXPECT_THAT(missing("k.sfb --recipe adamw --shape 24x40 --target x86-64-v3,x86-64-v4"),
              ElementsAre("shape adamw 24x40 (p0)", "kernel stepfuse_adamw_update_f32"));
  const CommandResult text = cli_.run("aot verify k.sfb --recipe adamw --shape 24x41 --target x86-64-v3");
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, HasSubstr("x86-64-v3 shape adamw 24x41 (p0) ("));
  EXPECT_THAT(text.out, HasSubstr("differs in shape: the entry has '24x40', wanted is '24x41'"));
  EXPECT_THAT(text.err, HasSubstr("error: 1 of 2 entries are missing from k.sfb"));
}

TEST_F(Aot, VerifyFindsADamagedEntry) {
  ASSERT_EQ(make("k.sfb", "--recipe adamw --shape 24x40 --target x86-64-v3").exit_code, 0);
  std::string bytes = cli_.read_text("k.sfb");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  cli_.write_text("k.sfb", bytes);
  const CommandResult result = cli_.run("aot verify k.sfb --recipe adamw --shape 24x40 --target x86-64-v3");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("its entry is damaged: the checksum is wrong"));
  bytes.resize(bytes.size() / 2);
  cli_.write_text("k.sfb", bytes);
  const CommandResult half = cli_.run("aot verify k.sfb --recipe adamw --shape 24x40 --target x86-64-v3");
  EXPECT_EQ(half.exit_code, 1);
  EXPECT_THAT(half.err, HasSubstr("where its header says"));
}

TEST_F(Aot, ADryRunListsAndCompilesNothing) {
  const WithVariable plugin("STEPFUSE_PLUGIN_DIR", "/nowhere");
  const WithVariable nvrtc("STEPFUSE_NVRTC", "/nowhere");
  const CommandResult result =
      cli_.run("aot --dry-run --recipe adamw --shape 3@24x40 --target sm_80,x86-64-v4 --format json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json answer = Json::parse(result.out);
  EXPECT_EQ(answer["schema"], 1);
  EXPECT_EQ(answer["shapes"], 2);
  const Json& device = answer["targets"][0];
  EXPECT_EQ(device["target"], "sm_80");
  EXPECT_EQ(device["shapes"][0]["members"], 3);
  std::vector<std::string> names;
  for (const Json& kernel : device["kernels"]) names.push_back(kernel["name"]);
  EXPECT_THAT(names,
              testing::IsSupersetOf({"stepfuse_adamw_update_f32, aligned", "stepfuse_adamw_update_f32, generic"}));
  EXPECT_EQ(cli_.files().size(), 2u);
}

TEST_F(Aot, BothVariantsForEveryArchitectureInOneFileThatVerifies) {
  if (!has_nvrtc()) GTEST_SKIP() << "there is no NVRTC";
  const std::string model = "--params p.safetensors --target sm_80,sm_90,compute_90,x86-64-v3 ";
  const CommandResult made = make("k.sfb", model + "--jobs 2");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(cli_.run("aot verify k.sfb " + model).exit_code, 0);
  ASSERT_EQ(make("1.sfb", model + "--jobs 1").exit_code, 0);
  EXPECT_EQ(cli_.read_text("k.sfb"), cli_.read_text("1.sfb"));
  EXPECT_EQ(cli_.read_text("k.sfb").find("libnvrtc"), std::string::npos) << "a path of this machine is in it";
  const WithVariable on("STEPFUSE_CACHE", "on");
  const WithVariable folder("STEPFUSE_CACHE_DIR", top_ / "cache");
  const WithVariable path("STEPFUSE_CACHE_PATH", cli_.path("k.sfb"));
  EXPECT_EQ(cli_.run("cache verify").exit_code, 0);
  const CommandResult why = cli_.run("cache why-miss --params p.safetensors --target sm_90");
  EXPECT_THAT(why.out, testing::Not(HasSubstr("miss")));
  EXPECT_THAT(cli_.run("cache why-miss --params p.safetensors --target sm_100").out, HasSubstr("wanted is 'sm_100'"));
}

TEST_F(Aot, TheManifestOfALiveOptimizerIsWhatABundleForItNeeds) {
  Optimizer optimizer(Context(ContextOptions{{{"cache", "off"}, {"target", "interp"}}, {}, {}, {}, {}}));
  const GroupId group = optimizer.add_group("adamw");
  for (const char* name : {"w", "b"}) {
    Parameter parameter;
    parameter.name = name;
    parameter.shape = {6, 4};
    parameter.dtype = ElementType::BF16;
    parameter.state_dtype = ElementType::F32;
    optimizer.add_parameter(group, parameter);
  }
  optimizer.prepare();
  optimizer.write_manifest(cli_.path("m.toml"));
  ASSERT_EQ(make("k.sfb", "--recipe adamw --params m.toml --target x86-64-v3").exit_code, 0);
  const CommandResult verified =
      cli_.run("aot verify k.sfb --recipe adamw --shape 2@6x4 --dtype p=bf16,g=bf16,m=f32 --target x86-64-v3");
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
}

TEST_F(Aot, AnArchitectureThatNvrtcDoesNotKnowLeavesNoBundle) {
  if (!has_nvrtc()) GTEST_SKIP() << "there is no NVRTC";
  const CommandResult result = make("k.sfb", "--recipe sgd --shape 8 --target sm_20");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("sm_20"));
  EXPECT_EQ(std::ranges::count(cli_.files(), "k.sfb"), 0);
}

TEST_F(Aot, MistakesAreUsageErrors) {
  const auto complains = [&](const std::string& arguments, std::string_view about) {
    const CommandResult result = cli_.run("aot " + arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr(std::string(about))) << arguments;
  };
  complains("--params gone.toml -o k.sfb", "aot needs --target");
  complains("--params gone.toml --target sm_90", "aot needs --output");
  complains("--target sm_90 -o k.sfb", "aot needs --params or --shape");
  complains("--params gone.toml --target sm_90 -o k.bin", "'k.bin' is no name of a bundle");
  complains("--params gone.toml --target sm_90,cuda -o k.sfb", "aot compiles nothing for target 'cuda'");
  complains("--params gone.toml --target interp -o k.sfb", "aot compiles nothing for target 'interp'");
  complains("--params gone.toml --target sm_90,,cpu -o k.sfb", "--target  is not legal");
  complains("--params gone.toml --target x86-64-v5 -o k.sfb", "--target x86-64-v5 is not legal");
  complains("--params gone.toml --target sm_90 --dry-run -o k.sfb", "--output has no effect on a --dry-run");
  complains("verify --params gone.toml --target sm_90", "aot verify needs a BUNDLE");
  complains("verify k.sfb --params gone.toml --target sm_90 --jobs 2", "--jobs has no effect on aot verify");
  complains("verfy k.sfb", "aot has no action 'verfy'");
  {
    const WithVariable off("STEPFUSE_JIT", "off");
    complains("--recipe sgd --shape 8 --target cpu -o k.sfb", "jit=off forbids it");
  }
  {
    const WithVariable edited("STEPFUSE_OVERRIDE_DIR", top_.path().string());
    complains("--recipe sgd --shape 8 --target cpu -o k.sfb", "override_dir has no effect on aot");
  }
  EXPECT_EQ(cli_.run("aot verify gone.sfb --recipe sgd --shape 8 --target cpu").exit_code, 3);
}

}  // namespace
}  // namespace stepfuse::e2e
