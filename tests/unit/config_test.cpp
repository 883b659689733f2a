// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Both spellings of a config, and everything that may be wrong with one.
#include "runtime/config/config.h"

#include "runtime/target.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

Config parsed(std::string_view toml, const ir::OptionList& pairs = {}) {
  auto config = parse_config(toml, "c.toml", pairs);
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config ? std::move(*config) : Config();
}

/// "message | hint"; empty when there is no error.
std::string error_of(std::string_view toml) {
  const auto config = parse_config(toml, "c.toml");
  return config ? std::string() : config.error().message + " | " + config.error().hint;
}

const std::string kShown = "docs/config.md shows how each key is written";

const OptimizerChoice& choice_of(const Config& config, size_t group = 0) {
  return config.groups.at(group).choices.at(0);
}

TEST(Config, EmptyIsTheBuiltInRules) {
  for (const Config& config : {parsed(""), config_from_pairs({}).value()}) {
    EXPECT_TRUE(config.groups.empty());
    ASSERT_TRUE(config.unmatched.has_value());
    EXPECT_EQ(config.unmatched->choices[0].optimizer, "muon");
    EXPECT_EQ(config.unmatched->choices[1].optimizer, "adamw");
    EXPECT_THAT(config.notes, IsEmpty());
  }
}

TEST(Config, GroupsOverOptimizersOverDefaults) {
  const Config config = parsed(R"([defaults]
lr = 1
eps = 1e-5
[defaults.adamw]
lr = 2
betas = [0.8, 0.9]
[[group]]
match = "a"
optimizer = "adamw"
lr = 3
beta2 = 0.5
[[group]]
match = "b"
optimizer = "adamw"
)");
  EXPECT_THAT(choice_of(config, 0).options,
              ElementsAre(Pair("beta1", "0.8"), Pair("beta2", "0.5"), Pair("eps", "1e-05"), Pair("lr", "3")));
  EXPECT_EQ(choice_of(config, 1).lr, 2);
  EXPECT_EQ(config.unmatched->choices[0].lr, 1);  // muon
}

TEST(Config, BothSpellingsAreOneSchema) {
  const Config file = parsed(R"(unmatched = "error"
[settings]
threads = 2
[defaults.muon]
lr = 0.02
[[group]]
name = "hidden"
match = ["h.*", "g.*"]
where = "ndim == 2"
optimizer = "muon"
ns_coefficients = [2, -1.5, 0.5]
lr_mult = 0.5
)");
  const Config pairs = config_from_pairs({{"unmatched", "error"},
                                          {"settings.threads", "2"},
                                          {"muon.lr", "0.02"},
                                          {"group.hidden.match", "h.*,g.*"},
                                          {"group.hidden.where", "ndim == 2"},
                                          {"group.hidden.optimizer", "muon"},
                                          {"hidden.ns_coefficients", "2,-1.5,0.5"},
                                          {"hidden.lr_mult", "0.5"}})
                           .value();
  for (const Config& config : {file, pairs}) {
    EXPECT_FALSE(config.unmatched.has_value());
    ASSERT_EQ(config.settings.size(), 1U);
    EXPECT_EQ(config.settings[0].name + "=" + config.settings[0].text, "threads=2");
    ASSERT_EQ(config.groups.size(), 1U);
    EXPECT_EQ(config.groups[0].name, "hidden");
    EXPECT_EQ(config.groups[0].match.size(), 2U);
    EXPECT_EQ(config.groups[0].policy.lr_mult, 0.5);
    EXPECT_THAT(choice_of(config).options,
                ElementsAre(Pair("lr", "0.02"), Pair("ns_a", "2"), Pair("ns_b", "-1.5"), Pair("ns_c", "0.5")));
  }
  EXPECT_EQ(file.settings[0].where, "c.toml:3:1");
  EXPECT_EQ(pairs.settings[0].where, "settings.threads");
}

TEST(Config, PairsReplaceWhatTheFileSays) {
  const Config config = parsed("[[group]]\nname='x'\nmatch='*'\noptimizer='sgd'\nlr=1\n[settings]\nthreads=1",
                               {{"x.lr", "2"}, {"settings.threads", "4"}, {"group.x.lr_mult", "3"}});
  EXPECT_EQ(choice_of(config).lr, 2);
  EXPECT_EQ(config.groups[0].policy.lr_mult, 3);
  EXPECT_EQ(config.settings[0].text, "4");
}

TEST(Config, GroupsWithoutANameGoByTheirNumber) {
  const Config config = parsed("[[group]]\nmatch='a*'\noptimizer='sgd'\n[[group]]\nmatch='b*'\noptimizer='sgd'\n",
                               {{"group.2.lr", "0.5"}});
  ASSERT_EQ(config.groups.size(), 2U);
  EXPECT_EQ(config.groups[1].name, "2");
  EXPECT_EQ(config.groups[1].choices.front().lr, 0.5);
}

TEST(Config, LrPolicyHoldsForEveryLr) {
  EXPECT_EQ((GroupPolicy{0.5, std::nullopt}.effective_lr(4)), 2);
  EXPECT_EQ((GroupPolicy{0.5, 1.5}.effective_lr(4)), 1.5);
  EXPECT_EQ((GroupPolicy{0.5, 1.5}.effective_lr(2)), 1);
  EXPECT_EQ((GroupPolicy{0, 1.5}.effective_lr(2)), 0);
}

// H01
TEST(Config, H01_NumbersInQuotesAreNumbers) {
  const Config config =
      parsed("[[group]]\nmatch='*'\noptimizer='muon'\nlr = '5e-5'\neps = \"1e-7\"\nmomentum='1.0e-7'");
  EXPECT_EQ(choice_of(config).lr, 5e-5);
  EXPECT_EQ(choice_of(config).values.number("eps"), 1e-7);
  EXPECT_EQ(choice_of(config).values.number("momentum"), 1e-7);
  EXPECT_EQ(error_of("[defaults]\nlr = 'abc'"),
            "c.toml:2:1: lr: expected a number, got 'abc' | lr takes a number in [0, inf)");
  const auto pairs = config_from_pairs({{"lr", "abc"}});
  ASSERT_FALSE(pairs.has_value());
  EXPECT_EQ(pairs.error().message, "lr: expected a number, got 'abc'");
  EXPECT_EQ(pairs.error().code, StatusCode::InvalidArgument);
}

struct Bad {
  const char* toml;
  std::string error;
};

void expect_errors(const std::vector<Bad>& cases) {
  for (const Bad& bad : cases) EXPECT_EQ(error_of(bad.toml), bad.error) << bad.toml;
}

// H02
TEST(Config, H02_UnknownKeysAreErrorsWithTheNearestName) {
  constexpr const char* kMuon =
      "the options are adjust_lr_fn, eps, lr, momentum, nesterov, ns_coefficients, ns_dtype, ns_steps, weight_decay";
  const std::string group = "[[group]]\nmatch='*'\noptimizer='muon'\n";
  EXPECT_EQ(error_of(group + "momentun = 0.9"),
            std::string("c.toml:4:1: muon has no option 'momentun' | did you mean 'momentum'? ") + kMuon);
  EXPECT_EQ(error_of(group + "betas = [0.9, 0.95]"), std::string("c.toml:4:1: muon has no option 'betas' | ") + kMuon);
  EXPECT_EQ(error_of("[defaults.muon]\nbetas = [0.9, 0.95]"),
            std::string("c.toml:2:1: muon has no option 'betas' | ") + kMuon);
  expect_errors(
      {{"strict_confg = true",
        "c.toml:1:1: unknown key 'strict_confg' | did you mean 'strict_config'? the keys of a config are "
        "strict_config, unmatched, unknown_2d, settings, defaults, group"},
       {"[setings]\nx=1",
        "c.toml:1:2: unknown table 'setings' | did you mean 'settings'? the keys of a config are strict_config, "
        "unmatched, unknown_2d, settings, defaults, group"},
       {"[settings]\ncachee='on'",
        "c.toml:2:1: there is no setting 'cachee' | did you mean 'cache'? the settings are target, mode, threads, "
        "jobs, disable, jit, cache, cache_dir, cache_path, cache_max_size, plugin_dir, nvrtc, cublaslt, libcuda, "
        "device, log, dump, dump_dir, override_dir, trace"},
       {"[defaults]\nmuon_momentum=0.9",
        "c.toml:2:1: no optimizer has an option 'muon_momentum' | write momentum under [defaults.muon], or "
        "muon.momentum=..."},
       {"[defaults]\nmuon_split_qkv=true",
        "c.toml:2:1: no optimizer has an option 'muon_split_qkv' | muon has no option 'split_qkv' in this version; "
        "see `stepfuse describe muon`"},
       {"[defaults.moun]\nlr=1",
        "c.toml:1:11: moun: there is no recipe 'moun' | did you mean 'muon'? the recipes are adamw, adam, sgd, muon; "
        "an IR file ends in .sfir"},
       {"[[group]]\nmatch='*'\noptimizer='adamm'",
        "c.toml:3:1: optimizer: there is no recipe 'adamm' | did you mean 'adamw'? the recipes are adamw, adam, sgd, "
        "muon; an IR file ends in .sfir"},
       {"[[group]]\nmatch='*'\npreset='kellr'",
        "c.toml:3:1: preset: there is no preset 'kellr' | did you mean 'keller'? the presets are torch, keller, "
        "emerging, megatron, verl, moonlight, dion, gns"}});
  const auto pairs = config_from_pairs({{"moun.lr", "1"}});
  ASSERT_FALSE(pairs.has_value());
  EXPECT_EQ(pairs.error().message, "moun.lr: there is no optimizer or group 'moun'");
  EXPECT_THAT(pairs.error().hint, HasSubstr("did you mean 'muon'?"));
}

TEST(Config, OtherPresetsAreNotYet) {
  const auto config = parse_config("[defaults]\npreset='keller'", "c.toml");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().code, StatusCode::Unsupported);
  EXPECT_THAT(config.error().message, HasSubstr("c.toml:2:1: preset: preset 'keller' is not yet in this version"));
  EXPECT_EQ(error_of("[defaults]\npreset='torch'"), "");
}

// H03
TEST(Config, H03_RangesAreTheRecipesOwn) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"lr", "-0.1"},    {"lr", "nan"},      {"lr", "inf"},       {"eps", "-1"},
      {"ns_steps", "0"}, {"ns_steps", "-1"}, {"ns_steps", "100"}, {"ns_steps", "2.5"}};
  for (const auto& [key, value] : cases) {
    const std::string toml = fmt::format("[[group]]\nmatch='*'\noptimizer='muon'\n{} = {}", key, value);
    EXPECT_THAT(error_of(toml), HasSubstr(fmt::format("c.toml:4:1: {}={} is not legal | {} takes a", key, value, key)));
  }
  EXPECT_EQ(error_of("[defaults]\nbeta2 = 1.0"), "c.toml:2:1: beta2=1 is not legal | beta2 takes a number in [0, 1)");
  EXPECT_EQ(error_of("[defaults]\nbetas = [0.9, -0.2]"),
            "c.toml:2:1: betas=-0.2 is not legal | betas takes a number in [0, 1)");
  EXPECT_EQ(error_of("[defaults]\nlr = 0"), "");
  // Even where nobody takes it.
  EXPECT_EQ(error_of("[defaults.sgd]\nmomentum = -1"),
            "c.toml:2:1: momentum=-1 is not legal | momentum takes a number in [0, 1)");
}

// H06
TEST(Config, H06_OldNamesAreMappedWithOneNote) {
  const Config old = parsed("[[group]]\nmatch='*'\noptimizer='dist_muon'\nuse_nesterov=false");
  const Config now = parsed("[[group]]\nmatch='*'\noptimizer='muon'\nnesterov=false");
  EXPECT_EQ(choice_of(old).optimizer, choice_of(now).optimizer);
  EXPECT_EQ(choice_of(old).options, choice_of(now).options);
  EXPECT_THAT(old.notes, ElementsAre("c.toml:3:1: optimizer: 'dist_muon' is called muon here",
                                     "c.toml:4:1: use_nesterov: muon calls it nesterov"));
  EXPECT_THAT(now.notes, IsEmpty());
}

TEST(Config, WrongTypes) {
  expect_errors(
      {{"strict_config = 'yes'", "c.toml:1:1: strict_config=yes is not legal | strict_config is false, true"},
       {"unknown_2d = 3", "c.toml:1:1: unknown_2d: expected a text in quotes, got a number | " + kShown},
       {"unmatched = 'deflt'", "c.toml:1:1: unmatched=deflt is not legal | unmatched is default, error"},
       {"settings = 1",
        "c.toml:1:1: settings: expected a table, got a number | write [settings] on a line of its "
        "own, and its keys below"},
       {"group = 3", "c.toml:1:1: group: expected a list of tables, got a number | begin each group with [[group]]"},
       {"[group]\nname='x'",
        "c.toml:1:2: group: expected a list of tables, got a table | begin each group with [[group]]"},
       {"[settings]\nlog={a=1}", "c.toml:2:1: log: expected a value, got a table | " + kShown},
       {"[settings]\nthreads='many'", "c.toml:2:1: threads=many is not legal | threads is a whole number, 0 to 1024"},
       {"[settings]\nmode='strikt'",
        "c.toml:2:1: mode=strikt is not legal | did you mean 'strict'? mode is default, strict"},
       {"[settings]\ntarget='x86-64-v9'",
        "c.toml:2:1: target: unknown CPU target 'x86-64-v9' | use 'cpu' (this host), 'x86-64-v3' (AVX2 and FMA) or "
        "'x86-64-v4' (AVX-512)"},
       {"[[group]]\nmatch=3", "c.toml:2:1: match: expected a name pattern or a list of them, got a number | " + kShown},
       {"[[group]]\nmatch=[['a']]",
        "c.toml:2:1: match: expected a name pattern or a list of them, got a list with a "
        "list | " +
            kShown},
       {"[[group]]\nmatch=[]", "c.toml:2:1: match is empty | leave the key out, or give it patterns"},
       {"[[group]]\nmatch='*'\nname=''", "c.toml:3:1: name is empty | leave the key out, or give it a value"},
       {"[defaults]\nlr=[1]",
        "c.toml:2:1: lr: expected a number, got a list | `stepfuse describe` shows the type of lr"},
       {"[defaults]\nlr={x=1}",
        "c.toml:2:1: lr: expected a number, got a table | `stepfuse describe` shows the type of lr"},
       {"[defaults]\nlr=1979-05-27",
        "c.toml:2:1: lr: expected a number, got a date or time | `stepfuse describe` shows the type of lr"},
       {"[defaults]\nlr=true", "c.toml:2:1: lr: expected a number, got 'true' | lr takes a number in [0, inf)"},
       {"[defaults]\nnesterov='maybe'", "c.toml:2:1: nesterov=maybe is not legal | nesterov takes true or false"},
       {"[defaults]\nadjust_lr_fn='spectral'",
        "c.toml:2:1: adjust_lr_fn=spectral is not legal | adjust_lr_fn takes "
        "one of original, match_rms_adamw, spectral_unclamped"},
       {"[defaults]\nbetas=[0.9]",
        "c.toml:2:1: betas=0.9 is not legal | betas takes 2 numbers separated by commas, "
        "such as 0.9,0.999"},
       {"[[group]]\nmatch='*'\nlr_mult=-1", "c.toml:3:1: lr_mult=-1 is not legal | lr_mult takes a number in [0, inf)"},
       {"[[group]]\nmatch='*'\nlr_max=0", "c.toml:3:1: lr_max=0 is not legal | lr_max takes a number in (0, inf)"},
       {"[[group]]\nmatch='h.['",
        "c.toml:2:1: match: 'h.[': the [ at 3 is not closed | [abc] stands for one of the "
        "characters; [[] stands for the bracket itself"},
       {"[[group]]\nwhere='ndmi == 2'",
        "c.toml:2:1: where: column 1 of \"ndmi == 2\": expected ndim, numel, rows, cols, dtype or name, got 'ndmi' | "
        "did you mean 'ndim'? a condition compares ndim, numel, rows, cols, dtype or name, such as ndim == 2 and not "
        "(rows > 50000)"}});
  EXPECT_THAT(error_of("[settings]\ndisable=['fuze']"),
              HasSubstr("c.toml:2:1: disable: there is no pass 'fuze' | did you mean 'fuse'?"));
  EXPECT_THAT(error_of("[defaults]\nno_decay=['bais']"),
              HasSubstr("c.toml:2:1: no_decay: 'bais' is neither a role nor a name pattern | did you mean 'bias'?"));
}

TEST(Config, Contradictions) {
  expect_errors(
      {{"[[group]]\noptimizer='sgd'",
        "c.toml:1:1: group '1' has neither match nor where | match = \"*\" takes every parameter"},
       {"[[group]]\nname='a'\nmatch='x'\n[[group]]\nname='a'\nmatch='y'",
        "c.toml:4:1: group 'a': there already is a group of this name | the first is c.toml:1:1: group 'a'"},
       {"[[group]]\nname='default'\nmatch='x'",
        "c.toml:1:1: group 'default': the name stands for the built-in rules | give another name"},
       {"[[group]]\nmatch='*'\noptimizer='sgd'\nnesterov=true",
        "c.toml:1:1: group '1': sgd: nesterov needs momentum > 0 and dampening = 0, got momentum=0 dampening=0 | set "
        "momentum=0.9 dampening=0, or nesterov=false"},
       {"[[group]]\nmatch='*'\noptimizer='adamw'\nbetas=[0.9,0.9]\nbeta1=0.8",
        "c.toml:5:1: beta1: beta1 is given twice | give each option once, by itself or as part of its list"}});
  const auto twice = config_from_pairs({{"lr", "1"}, {"lr", "2"}});
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().message, "lr is given twice");
  EXPECT_THAT(error_of("a = 1\na = 2"), HasSubstr("c.toml:2:5: Error while parsing key-value pair: "));
  EXPECT_THAT(error_of("[settings\n"), HasSubstr("c.toml:1:10: "));
}

TEST(Config, InactiveOptionsAreSaidOnce) {
  const std::string toml =
      "[defaults]\nbetas=[0.9,0.95]\n[defaults.sgd]\nlr=1\n[[group]]\nmatch='a'\n"
      "optimizer='muon'\n[[group]]\nmatch='b'\noptimizer='muon'\n";
  const Config config = parsed("unmatched='error'\n" + toml);
  EXPECT_THAT(config.notes,
              ElementsAre("c.toml:3:1: betas has no effect: it belongs to adamw, adam, which no group uses",
                          "c.toml:5:1: lr has no effect: it belongs to sgd, which no group uses"));
  EXPECT_EQ(error_of("unmatched='error'\nstrict_config=true\n" + toml),
            "c.toml:4:1: betas has no effect: it belongs to adamw, adam, which no group uses | take it out, or leave "
            "strict_config off");
  EXPECT_THAT(
      parsed("unmatched='error'\n[defaults]\nlr=1\n[defaults.sgd]\nlr=2\n[[group]]\nmatch='*'\noptimizer='sgd'").notes,
      ElementsAre("c.toml:3:1: lr has no effect: every group that could take it has a value of its own"));
}

TEST(Config, EveryErrorIsFoundInTheOrderOfTheFile) {
  const std::string path = testing::TempDir() + "stepfuse_config_errors.toml";
  std::ofstream(path) << "[defaults]\nlr = -1\nlrr = 1\n[[group]]\nmatch = 3\n[settings]\nthreads = -1\n";
  std::vector<std::string> messages;
  for (const Status& status : check_config(path).errors) {
    EXPECT_EQ(status.code, StatusCode::InvalidData);
    messages.push_back(status.message.substr(path.size()));
  }
  EXPECT_THAT(messages, ElementsAre(":2:1: lr=-1 is not legal", ":3:1: no optimizer has an option 'lrr'",
                                    ":5:1: match: expected a name pattern or a list of them, got a number",
                                    ":7:1: threads=-1 is not legal"));
  std::filesystem::remove(path);
}

TEST(Config, FilesThatAreNone) {
  EXPECT_EQ(load_config("/nonexistent/c.toml").error().code, StatusCode::NotFound);
  EXPECT_EQ(load_config(testing::TempDir()).error().code, StatusCode::NotFound);
}

TEST(Config, TargetsAreJudgedByTheirForm) {
  const auto config = parse_config("[settings]\ntarget='sm_9'", "c.toml");
  ASSERT_FALSE(config.has_value());
  EXPECT_THAT(config.error().message, HasSubstr("c.toml:2:1: target: "));
  // Unless the build has no such backend.
  EXPECT_EQ(parse_config("[settings]\ntarget='sm_90'", "c.toml").has_value(), check_target("sm_90").has_value());
}

TEST(Config, DamagedTextGivesAnAnswer) {
  std::ifstream file(STEPFUSE_SOURCE_DIR "/examples/configs/gpt2.toml");
  const std::string whole(std::istreambuf_iterator<char>(file), {});
  ASSERT_TRUE(parse_config(whole, "c.toml").has_value());
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::string> damaged{whole.substr(0, at), whole.substr(at)};
    for (char c : {'\0', '\n', '"', '[', ']', '=', '{', '.', '0', '-', '\xff'}) {
      damaged.push_back(whole);
      damaged.back()[at] = c;
    }
    for (const std::string& text : damaged) {
      const auto config = parse_config(text, "c.toml");
      EXPECT_TRUE(config.has_value() || config.error().code != StatusCode::Internal) << text;
    }
  }
}

TEST(Config, IrFilesLieBesideTheConfig) {
  const std::string name = STEPFUSE_SOURCE_DIR "/examples/ir/config.toml";
  const auto config = parse_config("[[group]]\nmatch='*'\noptimizer='lion.sfir'\nlr=3e-5\nlr_mult=2", name);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(choice_of(*config).lr, 3e-5);
  const auto bad = parse_config("[[group]]\nmatch='*'\noptimizer='lion.sfir'\nlr=3e-5\nbeta=1", name);
  ASSERT_FALSE(bad.has_value());
  EXPECT_THAT(bad.error().hint, HasSubstr("did you mean 'beta1'?"));
  const auto gone = parse_config("[[group]]\nmatch='*'\noptimizer='gone.sfir'", name);
  ASSERT_FALSE(gone.has_value());
  EXPECT_EQ(gone.error().code, StatusCode::NotFound);
}

}  // namespace
}  // namespace stepfuse::runtime
