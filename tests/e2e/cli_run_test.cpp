// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// `stepfuse run` as a user types it: files in, files out, exit codes, messages.
#include "tests/e2e/cli_harness.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::e2e {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr const char* kExamples = STEPFUSE_SOURCE_DIR "/examples/ir/";
constexpr const char* kFiles =
    " --params p.safetensors --grads g.safetensors --out o.safetensors --state-out s.safetensors ";

std::vector<std::string> names(const FileTensors& tensors) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : tensors) result.push_back(name);
  return result;
}

/// Two matrices and their gradients.
void write_matrices(const CliFolder& folder) {
  folder.write("p.safetensors", {{"a", random_f32({32, 48}, 1)}, {"b", random_f32({48, 32}, 2)}});
  folder.write("g.safetensors", {{"a", random_f32({32, 48}, 3)}, {"b", random_f32({48, 32}, 4)}});
}

/// One matrix `w` and its gradient.
void write_one(const CliFolder& folder, const FileTensor& parameter, const FileTensor& gradient) {
  folder.write("p.safetensors", {{"w", parameter}});
  folder.write("g.safetensors", {{"w", gradient}});
}

class CliRunOnTarget : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, CliRunOnTarget, testing::Values("interp", "cpu"));

// Case A13: the decay uses the learning rate as given, before the update.
TEST_P(CliRunOnTarget, DecaysWithTheUnadjustedLearningRate) {
  const std::vector<std::pair<std::string, float>> kExpected{{"original", 0.8791889F}, {"match_rms_adamw", 0.9586579F}};
  for (const auto& [rule, expected] : kExpected) {
    for (const char* nesterov : {"true", "false"}) {
      SCOPED_TRACE(rule + " nesterov=" + nesterov);
      const CliFolder folder;
      write_one(folder, f32({2, 2}, {1, 0, 0, 1}), f32({2, 2}, {1, 0, 0, 1}));
      const auto result = folder.run(
          "run --recipe muon --set lr=0.1 --set weight_decay=0.1 --set ns_dtype=f32 --set adjust_lr_fn=" + rule +
          " --set nesterov=" + nesterov + " --target " + GetParam() + kFiles);
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const std::vector<float> w = floats(folder.read("o.safetensors").at("w"));
      EXPECT_NEAR(w[0], expected, 2e-6);
      EXPECT_NEAR(w[3], expected, 2e-6);
      EXPECT_NEAR(w[1], 0, 1e-6);
      EXPECT_NEAR(w[2], 0, 1e-6);
    }
  }
}

// Case A08: a tall matrix gives the transpose of what the wide one gives, bit for bit in f32.
TEST_P(CliRunOnTarget, TreatsATallMatrixAsItsTranspose) {
  const std::string options =
      "run --recipe muon --mode strict --set lr=1 --set momentum=0 --set weight_decay=0 --set ns_dtype=f32 "
      "--set adjust_lr_fn=match_rms_adamw --target " +
      GetParam() + kFiles;
  const CliFolder tall, wide;
  write_one(tall, f32({3, 2}, std::vector<float>(6)), f32({3, 2}, {3, 0, 0, 4, 0, 0}));
  write_one(wide, f32({2, 3}, std::vector<float>(6)), f32({2, 3}, {3, 0, 0, 0, 4, 0}));
  const auto tall_result = tall.run(options);
  const auto wide_result = wide.run(options);
  ASSERT_EQ(tall_result.exit_code, 0) << tall_result.err;
  ASSERT_EQ(wide_result.exit_code, 0) << wide_result.err;
  const std::vector<float> t = floats(tall.read("o.safetensors").at("w"));
  const std::vector<float> w = floats(wide.read("o.safetensors").at("w"));
  for (size_t row = 0; row < 3; ++row)
    for (size_t column = 0; column < 2; ++column) EXPECT_EQ(t[row * 2 + column], w[column * 3 + row]);
  const double scale = 0.2 * std::sqrt(3.0);
  EXPECT_NEAR(static_cast<double>(t[0]), -0.722876 * scale, 1e-6);
  EXPECT_NEAR(static_cast<double>(t[3]), -1.119204 * scale, 1e-6);
}

class CliRunOfRecipe : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Recipes, CliRunOfRecipe,
                         testing::Values("adamw", "adam --set amsgrad=true", "sgd",
                                         "sgd --set momentum=0.9 --set dampening=0.1", "muon",
                                         std::string(kExamples) + "lion.sfir",
                                         std::string(kExamples) + "adamw_reordered.sfir"));

TEST_P(CliRunOfRecipe, ContinuesFromItsStateFile) {
  const CliFolder folder;
  write_matrices(folder);
  const std::string recipe = "run --mode strict --recipe " + GetParam() + " --grads g.safetensors";
  for (const char* step :
       {" --params p.safetensors --out two.safetensors --state-out two_s.safetensors --steps 2",
        " --params p.safetensors --out o.safetensors --state-out s.safetensors",
        // The second step replaces its own inputs.
        " --params o.safetensors --state s.safetensors --out o.safetensors --state-out s.safetensors"}) {
    const auto result = folder.run(recipe + step);
    ASSERT_EQ(result.exit_code, 0) << step << "\n" << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "");
  }
  EXPECT_EQ(folder.read("o.safetensors"), folder.read("two.safetensors"));
  EXPECT_EQ(folder.read("s.safetensors"), folder.read("two_s.safetensors"));
  EXPECT_NE(folder.read("o.safetensors"), folder.read("p.safetensors"));
  EXPECT_THAT(folder.files(), ElementsAre("g.safetensors", "o.safetensors", "p.safetensors", "s.safetensors",
                                          "two.safetensors", "two_s.safetensors"));
}

TEST_P(CliRunOfRecipe, AgreesWithTheInterpreter) {
  for (const char* mode : {"strict", "default"}) {
    const CliFolder folder;
    write_matrices(folder);
    const auto result =
        folder.run("run --check --steps 3 --mode " + std::string(mode) + " --recipe " + GetParam() + kFiles);
    EXPECT_EQ(result.exit_code, 0) << mode << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr("check: a: ")) << mode;
    EXPECT_THAT(result.err, HasSubstr("check: b: ")) << mode;
  }
}

TEST(CliRun, WritesTorchsStateNames) {
  const CliFolder folder;
  write_one(folder, random_f32({4, 4}, 1), random_f32({4, 4}, 2));
  ASSERT_EQ(folder.run(std::string("run --recipe adamw --steps 3") + kFiles).exit_code, 0);
  const FileTensors adamw = folder.read("s.safetensors");
  EXPECT_THAT(names(adamw), UnorderedElementsAre("w.exp_avg", "w.exp_avg_sq", "w.step"));
  EXPECT_EQ(adamw.at("w.step"), f32({}, {3}));
  ASSERT_EQ(folder.run(std::string("run --recipe muon") + kFiles).exit_code, 0);
  EXPECT_THAT(names(folder.read("s.safetensors")), UnorderedElementsAre("w.momentum_buffer"));
}

TEST(CliRun, RoutesMatricesToMuonAndTheRestToAdamW) {
  const CliFolder folder;
  const FileTensors tensors{
      {"h.w", random_f32({8, 8}, 1)}, {"h.b", random_f32({8}, 2)}, {"wte", random_f32({16, 8}, 3)}};
  folder.write("p.safetensors", tensors);
  folder.write("g.safetensors", tensors);
  const auto result = folder.run(std::string("run") + kFiles);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(names(folder.read("s.safetensors")),
              UnorderedElementsAre("h.w.momentum_buffer", "h.b.exp_avg", "h.b.exp_avg_sq", "h.b.step", "wte.exp_avg",
                                   "wte.exp_avg_sq", "wte.step"));
}

TEST(CliRun, LeavesAParameterWithoutGradientAsItIs) {
  const CliFolder folder;
  const FileTensor still = random_f32({4, 4}, 1);
  folder.write("p.safetensors", {{"moves", random_f32({4, 4}, 2)}, {"still", still}});
  folder.write("g.safetensors", {{"moves", random_f32({4, 4}, 3)}});
  const auto result = folder.run(std::string("run --recipe adamw") + kFiles);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "note: 'still' has no gradient and stays as it is\n");
  EXPECT_EQ(folder.read("o.safetensors").at("still"), still);
  EXPECT_THAT(names(folder.read("s.safetensors")),
              UnorderedElementsAre("moves.exp_avg", "moves.exp_avg_sq", "moves.step"));
}

TEST(CliRun, PassesStatesOfAStillParameterOn) {
  const CliFolder folder;
  write_matrices(folder);
  ASSERT_EQ(folder.run(std::string("run --recipe adamw") + kFiles).exit_code, 0);
  const FileTensors before = folder.read("s.safetensors");
  folder.write("g.safetensors", {{"a", random_f32({32, 48}, 5)}});
  ASSERT_EQ(folder.run(std::string("run --recipe adamw --state s.safetensors") + kFiles).exit_code, 0);
  const FileTensors after = folder.read("s.safetensors");
  EXPECT_EQ(names(after), names(before));
  EXPECT_EQ(after.at("b.exp_avg"), before.at("b.exp_avg"));
  EXPECT_EQ(after.at("b.step"), f32({}, {1}));
  EXPECT_EQ(after.at("a.step"), f32({}, {2}));
}

TEST(CliRun, TakesSixteenBitAndEmptyTensors) {
  const CliFolder folder;
  folder.write("p.safetensors", {{"empty", f32({0, 4}, {})}, {"w", random_bf16({8, 8}, 1)}});
  folder.write("g.safetensors", {{"empty", f32({0, 4}, {})}, {"w", random_bf16({8, 8}, 2)}});
  const auto result = folder.run(std::string("run --recipe adamw --check") + kFiles);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(folder.read("o.safetensors").at("w").dtype, "BF16");
  EXPECT_EQ(folder.read("s.safetensors").at("w.exp_avg").dtype, "BF16");
  EXPECT_EQ(folder.read("o.safetensors").at("empty"), f32({0, 4}, {}));
  EXPECT_EQ(folder.read("s.safetensors").at("empty.exp_avg"), f32({0, 4}, {}));
  EXPECT_EQ(folder.read("s.safetensors").at("empty.step"), f32({}, {1}));
}

TEST(CliRun, KeepsMetadata) {
  const CliFolder folder;
  write_matrices(folder);
  ASSERT_EQ(folder.run(std::string("run --recipe sgd") + kFiles).exit_code, 0);
  const auto file = runtime::SafetensorsFile::open(folder.path("o.safetensors"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->metadata().at("format"), "pt");
}

// Whatever goes wrong, outputs that were there stay whole and no new file appears.
struct BadRun {
  std::string name;
  std::string arguments;  // after "run"
  int exit_code;
  std::string message;
  std::string hint;
};

std::string bad_run_name(const testing::TestParamInfo<BadRun>& info) { return info.param.name; }

void PrintTo(const BadRun& bad, std::ostream* stream) { *stream << bad.name; }

class CliRunRefuses : public testing::TestWithParam<BadRun> {
 protected:
  void SetUp() override {
    const FileTensor matrix = random_f32({4, 4}, 1);
    folder_.write("p.safetensors", {{"w", matrix}});
    folder_.write("g.safetensors", {{"w", random_f32({4, 4}, 2)}});
    folder_.write("vector.safetensors", {{"w", random_f32({4}, 1)}});
    folder_.write("bf16.safetensors", {{"w", random_bf16({4, 4}, 1)}});
    folder_.write("extra.safetensors", {{"w", matrix}, {"ww", matrix}});
    folder_.write("ints.safetensors", {{"w", {"I64", {1}, std::vector<std::byte>(8)}}});
    folder_.write("none.safetensors", {});
    const FileTensor one = f32({}, {1});
    folder_.write("s_nearest.safetensors", {{"w.exp_avgs", matrix}});
    folder_.write("s_partial.safetensors", {{"w.exp_avg", matrix}, {"w.step", one}});
    folder_.write("s_shape.safetensors",
                  {{"w.exp_avg", random_f32({2, 8}, 1)}, {"w.exp_avg_sq", matrix}, {"w.step", one}});
    folder_.write("s_step.safetensors", {{"w.exp_avg", matrix}, {"w.exp_avg_sq", matrix}, {"w.step", f32({}, {1.5F})}});
    folder_.write("s_nan.safetensors", {{"w.exp_avg", matrix}, {"w.exp_avg_sq", matrix}, {"w.step", f32({}, {NAN})}});
    folder_.write("s_muon.safetensors", {{"w.momentum_buffer", matrix}, {"w.step", one}});
    const std::string whole = folder_.read_text("p.safetensors");
    folder_.write_text("truncated.safetensors", whole.substr(0, whole.size() - 5));
    folder_.write_text("lying.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + whole.substr(8));
    folder_.write_text("short.safetensors", "abc");
    folder_.write_text("o.safetensors", "what was here before");
    folder_.write_text("s.safetensors", "this too");
  }

  CliFolder folder_;
};

TEST_P(CliRunRefuses, WithOneErrorAndNothingWritten) {
  const BadRun& bad = GetParam();
  const std::vector<std::string> before = folder_.files();
  const auto result = folder_.run("run " + bad.arguments);
  EXPECT_EQ(result.exit_code, bad.exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("error: "), HasSubstr(bad.message), HasSubstr(bad.hint)));
  EXPECT_EQ(folder_.files(), before);
  EXPECT_EQ(folder_.read_text("o.safetensors"), "what was here before");
  EXPECT_EQ(folder_.read_text("s.safetensors"), "this too");
}

std::string with(const std::string& params, const std::string& grads, const std::string& more) {
  return "--params " + params + ".safetensors --grads " + grads +
         ".safetensors --out o.safetensors --state-out s.safetensors " + more;
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, CliRunRefuses,
    testing::Values(
        BadRun{"missing_params", with("gone", "g", "--recipe adamw"), 3, "gone.safetensors", ""},
        BadRun{"missing_grads", with("p", "gone", "--recipe adamw"), 3, "gone.safetensors", ""},
        BadRun{"missing_state", with("p", "g", "--recipe adamw --state gone.safetensors"), 3, "gone.safetensors", ""},
        BadRun{"truncated", with("truncated", "g", "--recipe adamw"), 1, "truncated.safetensors", ""},
        BadRun{"lying_header", with("p", "lying", "--recipe adamw"), 1, "lying.safetensors", ""},
        BadRun{"short_file", with("short", "g", "--recipe adamw"), 1, "short.safetensors", ""},
        BadRun{"no_tensors", with("none", "none", "--recipe adamw"), 1, "none.safetensors: the file has no tensors",
               ""},
        BadRun{"integers", with("ints", "ints", "--recipe adamw"), 1, "tensor 'w' is I64", "F32, BF16, F16 or F64"},
        BadRun{"gradient_shape", with("p", "vector", "--recipe adamw"), 1,
               "the gradient of 'w' is [4], the parameter is [4, 4]", "hint: "},
        BadRun{"gradient_dtype", with("p", "bf16", "--recipe adamw"), 1,
               "the gradient of 'w' is BF16, the parameter is F32", "hint: "},
        BadRun{"gradient_name", with("p", "extra", "--recipe adamw"), 1, "gradient 'ww' belongs to no parameter",
               "did you mean 'w'?"},
        BadRun{"vector_to_muon", with("vector", "vector", "--recipe muon"), 2, "muon takes matrices (2 dimensions)",
               "another recipe"},
        BadRun{"rule_dtype", with("bf16", "bf16", std::string("--recipe ") + kExamples + "lion.sfir"), 2,
               "%p is f32, the tensor is bf16", "hint: "},
        BadRun{"missing_rule", with("p", "g", "--recipe gone.sfir"), 3, "gone.sfir", ""}),
    bad_run_name);

INSTANTIATE_TEST_SUITE_P(
    States, CliRunRefuses,
    testing::Values(BadRun{"unknown_name", with("p", "g", "--recipe adamw --state s_nearest.safetensors"), 1,
                           "no parameter has a state 'w.exp_avgs'", "did you mean 'w.exp_avg'?"},
                    BadRun{"incomplete", with("p", "g", "--recipe adamw --state s_partial.safetensors"), 1,
                           "'w.exp_avg_sq' is missing", "or none"},
                    BadRun{"shape", with("p", "g", "--recipe adamw --state s_shape.safetensors"), 1,
                           "state 'w.exp_avg' is F32 [2, 8], expected F32 [4, 4]", "hint: "},
                    BadRun{"fractional_step", with("p", "g", "--recipe adamw --state s_step.safetensors"), 1,
                           "'w.step' is 1.5", "whole number"},
                    BadRun{"nan_step", with("p", "g", "--recipe adamw --state s_nan.safetensors"), 1, "'w.step' is nan",
                           "whole number"},
                    BadRun{"step_without_use", with("p", "g", "--recipe muon --state s_muon.safetensors"), 1,
                           "no parameter has a state 'w.step'", "hint: "},
                    BadRun{"of_another_recipe", with("p", "g", "--recipe adamw --state s_muon.safetensors"), 1,
                           "no parameter has a state 'w.momentum_buffer'", "hint: "}),
    bad_run_name);

INSTANTIATE_TEST_SUITE_P(
    Outputs, CliRunRefuses,
    testing::Values(BadRun{"no_folder",
                           "--recipe adamw --params p.safetensors --grads g.safetensors --out gone/o.safetensors "
                           "--state-out s.safetensors",
                           3, "there is no folder 'gone'", "make the folder first"},
                    BadRun{"no_state_folder",
                           "--recipe adamw --params p.safetensors --grads g.safetensors --out o.safetensors "
                           "--state-out gone/s.safetensors",
                           3, "there is no folder 'gone'", "make the folder first"},
                    BadRun{
                        "is_a_folder",
                        "--recipe adamw --params p.safetensors --grads g.safetensors --out . --state-out s.safetensors",
                        3, "it is a folder", "name of a file"}),
    bad_run_name);

}  // namespace
}  // namespace stepfuse::e2e
