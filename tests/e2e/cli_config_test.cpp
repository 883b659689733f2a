// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// `stepfuse run --config`: what a config says is what the steps do.
#include "tests/e2e/cli_harness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::e2e {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFiles = " --params p.safetensors --grads g.safetensors --out o.safetensors ";

constexpr const char* kConfig = R"(
[settings]
target = "interp"
threads = 1
[defaults]
lr = 0.5
no_decay = "bias"
[defaults.sgd]
weight_decay = 0.5
[[group]]
name = "slow"
match = "h.*"
optimizer = "sgd"
lr_mult = 0.5
[[group]]
name = "capped"
match = "wte.*"
optimizer = "sgd"
lr_max = 0.125
)";

void write_model(const CliFolder& folder) {
  const FileTensors ones{
      {"h.0.weight", f32({2, 2}, {1, 1, 1, 1})}, {"h.0.bias", f32({2}, {1, 1})}, {"wte.weight", f32({2, 1}, {1, 1})}};
  folder.write("p.safetensors", ones);
  folder.write("g.safetensors", ones);
  folder.write_text("c.toml", kConfig);
}

void expect_updates(const CliFolder& folder) {
  const FileTensors out = folder.read("o.safetensors");
  EXPECT_THAT(floats(out.at("h.0.weight")), Each(0.625F));   // 1 - 0.5 * 0.5 * (1 + 0.5)
  EXPECT_THAT(floats(out.at("h.0.bias")), Each(0.75F));      // without decay
  EXPECT_THAT(floats(out.at("wte.weight")), Each(0.8125F));  // 1 - 0.125 * (1 + 0.5)
}

TEST(CliConfig, RoutesDecayAndLearningRates) {
  const CliFolder folder;
  write_model(folder);
  const auto result = folder.run("run --config c.toml" + std::string(kFiles));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  // Nothing to note: the default lr is taken by sgd, if by no other optimizer.
  EXPECT_EQ(result.err, "");
  expect_updates(folder);
}

TEST(CliConfig, FlagsComeOverTheFile) {
  const CliFolder folder;
  write_model(folder);
  const auto result = folder.run("run --config c.toml --target cpu --jobs 1 -v" + std::string(kFiles));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("kernels compiled"));
  expect_updates(folder);
  const auto refused = folder.run("run --config c.toml --target x86-64-v9" + std::string(kFiles));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--target x86-64-v9 is not legal"));
}

TEST(CliConfig, PairsComeOverTheFile) {
  const CliFolder folder;
  write_model(folder);
  const auto result =
      folder.run("run --config c.toml --set slow.lr_mult=1 --set slow.weight_decay=0" + std::string(kFiles));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(floats(folder.read("o.safetensors").at("h.0.weight")), Each(0.5F));
}

TEST(CliConfig, AModelThatDoesNotFitIsNotTouched) {
  const CliFolder folder;
  write_model(folder);
  folder.write_text("c.toml", "[[group]]\nmatch = 'h.*'\noptimizer = 'muon'\n");
  const auto result = folder.run("run --config c.toml" + std::string(kFiles));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "error: c.toml:1:1: group '1': muon takes parameters of 2 dimensions, and 'h.0.bias' is [2]\n"
            "hint: add where = \"ndim == 2\" to the group\n");
  EXPECT_THAT(folder.files(), ElementsAre("c.toml", "g.safetensors", "p.safetensors"));
}

TEST(CliConfig, IrFilesAreFoundBesideTheConfig) {
  const CliFolder folder;
  write_model(folder);
  const auto text = folder.run("inspect --recipe sgd --set lr=0.25 --stage naive -o rule.sfir");
  ASSERT_EQ(text.exit_code, 0) << text.err;
  folder.write_text("c.toml", "[[group]]\nmatch = '*'\noptimizer = 'rule.sfir'\n");
  const auto result = folder.run("run --target interp --config c.toml" + std::string(kFiles));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(floats(folder.read("o.safetensors").at("wte.weight")), Each(0.75F));
}

}  // namespace
}  // namespace stepfuse::e2e
