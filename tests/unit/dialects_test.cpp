// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The dialects against what the packages themselves hold: coefficients, scale factors and constructors, as
// tests/golden/generate.py wrote them down.
#include "ir/optimizers/coefficients.h"
#include "ir/optimizers/recipe.h"
#include "ir/optimizers/shape_scale.h"
#include "ir/support/number.h"

#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace stepfuse::ir {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json golden_table(const std::string& name) {
  std::ifstream file(std::string(STEPFUSE_SOURCE_DIR) + "/tests/golden/data/" + name + ".json");
  return json::parse(file).at(name);
}

TEST(Dialects, CoefficientsAreThePackages) {
  int compared = 0;
  for (const json& entry : golden_table("coefficients")) {
    if (entry.at("package") != "emerging-optimizers") continue;
    const CoefficientSet& set = coefficient_set(entry.at("name").get<std::string>());
    EXPECT_EQ(set.cycles, entry.at("iteration") == "cycle") << set.name;
    ASSERT_EQ(set.triples.size(), entry.at("triples").size()) << set.name;
    for (size_t i = 0; i < set.triples.size(); ++i) {
      const json& triple = entry.at("triples")[i];
      EXPECT_EQ(set.triples[i].a, triple[0]) << set.name << " " << i;
      EXPECT_EQ(set.triples[i].b, triple[1]) << set.name << " " << i;
      EXPECT_EQ(set.triples[i].c, triple[2]) << set.name << " " << i;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 6);
}

TEST(Dialects, ScaleFactorsAreThePackages) {
  int compared = 0;
  for (const json& entry : golden_table("scale_factors")) {
    const double factor =
        shape_scale(scale_mode_named(entry.at("mode").get<std::string>()), entry.at("rows"), entry.at("columns"));
    EXPECT_DOUBLE_EQ(factor, entry.at("factor")) << entry.dump();
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

const std::map<std::string, std::string> kPresets{{"emerging-optimizers", "emerging"}, {"megatron-core", "megatron"},
                                                  {"gram-newton-schulz", "gns"},       {"keller", "keller"},
                                                  {"moonlight", "moonlight"},          {"dion", "dion"}};

/// Arguments that are no numbers or words, that place work on a machine, or that are not there yet.
const std::set<std::string> kLeftOut{"stream_list",
                                     "is_qkv_fn",
                                     "pg_collection",
                                     "split_qkv",
                                     "qkv_split_shapes",
                                     "scalar_optimizer",
                                     "ns_use_kernels",
                                     "ns_max_batch_size",
                                     "ns_coefficients",
                                     "ns_algorithm",
                                     "flatten",
                                     "use_gram_newton_schulz",
                                     "gram_newton_schulz_num_restarts",
                                     "gram_newton_schulz_restart_iterations"};

/// Where the preset follows the configuration, whose default is another one, or writes "none" another way.
const std::set<std::string> kOtherDefault{"megatron nesterov", "megatron tp_mode", "gns ns_coefficients_preset",
                                          "emerging correct_shampoo_beta_bias"};

bool same_default(const json& theirs, const OptionInfo& ours) {
  const std::string text(ours.default_text);
  if (theirs.is_boolean()) return text == (theirs.get<bool>() ? "true" : "false");
  if (theirs.is_string()) return text == theirs.get<std::string>();
  if (theirs.is_number()) return parse_number(text) == theirs.get<double>();
  return theirs.is_array() && text == fmt::format("{},{}", theirs[0].get<double>(), theirs[1].get<double>());
}

TEST(Dialects, ConstructorsHaveThePackagesArgumentsAndDefaults) {
  int compared = 0;
  for (const json& entry : golden_table("constructors")) {
    const std::string preset = kPresets.at(entry.at("package"));
    const auto recipe = find_recipe(entry.at("recipe").get<std::string>(), preset);
    if (!recipe) continue;  // such as rekls, and Megatron's AdaptiveMuon, which cannot step
    for (const json& argument : entry.at("arguments")) {
      const std::string name = argument.at("name");
      if (kLeftOut.contains(name)) continue;
      const OptionInfo* option = find_option((*recipe)->options(), name);
      ASSERT_NE(option, nullptr) << preset << " " << (*recipe)->name << " " << name;
      if (!argument.contains("default") || kOtherDefault.contains(preset + " " + name)) continue;
      EXPECT_TRUE(same_default(argument.at("default"), *option)) << preset << " " << (*recipe)->name << " " << name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 90);
}

Outcome options_in(const char* recipe, const char* preset, const OptionList& given) {
  const Recipe* found = *find_recipe(recipe, preset);
  auto values = parse_options(recipe, found->options(), given);
  if (!values) return fail(std::move(values.error()));
  return found->validate(*values);
}

// Semantics 2.3: quintic wraps to its first triple, which maps 1 to 0.12; aol turns the sign.
TEST(Dialects, StepCountsThatDoHarmAreRefusedWithSafeOnes) {
  const auto collapse = options_in("muon", "emerging", {{"num_ns_steps", "6"}});
  ASSERT_FALSE(collapse);
  EXPECT_THAT(collapse.error().message, HasSubstr("muon: 6 steps of quintic make the update collapse"));
  EXPECT_THAT(collapse.error().hint, HasSubstr("quintic works with 1, 2, 3, 4, 5, 8"));
  const auto wrong_way = options_in("muon", "emerging", {{"coefficient_type", "aol"}});
  ASSERT_FALSE(wrong_way);
  EXPECT_THAT(wrong_way.error().message, HasSubstr("5 steps of aol turn the update round"));
  EXPECT_TRUE(options_in("muon", "emerging", {{"coefficient_type", "aol"}, {"num_ns_steps", "4"}}));
  EXPECT_TRUE(options_in("muon", "emerging", {{"num_ns_steps", "6"}, {"unsafe_ns_steps", "true"}}));
  for (const char* steps : {"5", "6", "8", "12"})
    EXPECT_TRUE(options_in("muon", "emerging", {{"coefficient_type", "polar_express"}, {"ns_steps", steps}})) << steps;
  EXPECT_FALSE(options_in("adaptive_muon", "emerging", {{"num_ns_steps", "7"}}));
}

TEST(Dialects, WhatThePackageRefusesIsRefused) {
  const std::vector<std::tuple<const char*, const char*, OptionList, const char*>> cases{
      {"adaptive_muon",
       "emerging",
       {{"moment2_method", "namo"}, {"weight_decay_method", "l2"}},
       "namo does not go with"},
      {"muon", "emerging", {{"coefficient_type", "cubic5"}}, "0.3 has no coefficient_type cubic5"},
      {"muon", "emerging", {{"coefficient_type", "custom"}}, "needs custom_coefficient_sets"},
      {"muon", "emerging", {{"custom_coefficient_sets", "1,2,3"}}, "has no effect with coefficient_type=quintic"},
      {"muon", "emerging", {{"use_syrk", "true"}}, "use_syrk=true has no effect"},
      {"muon", "emerging", {{"fp32_matmul_prec", "low"}}, "fp32_matmul_prec=low is not legal"},
      {"muon", "emerging", {{"scale_mode", "match_rms_adamw"}}, "scale_mode=match_rms_adamw is not legal"},
      {"muon", "megatron", {{"muon_tp_mode", "distributed"}}, "muon_tp_mode=distributed is not legal"},
      {"muon",
       "verl",
       {{"muon_match_adamw_update_rms", "true"}, {"muon_extra_scale_factor", "0.2"}},
       "both set the extra scale"}};
  for (const auto& [recipe, preset, given, message] : cases) {
    const auto refused = options_in(recipe, preset, given);
    ASSERT_FALSE(refused) << message;
    EXPECT_THAT(refused.error().message, HasSubstr(message));
    EXPECT_FALSE(refused.error().hint.empty()) << message;
  }
}

TEST(Dialects, HaveTheNamesOfTheirPeers) {
  const Recipe* dion = *find_recipe("muon", "dion");
  const auto values = parse_options("muon", dion->options(), {{"mu", "0.9"}, {"epsilon", "1e-6"}});
  ASSERT_TRUE(values.has_value());
  EXPECT_EQ(values->number("momentum"), 0.9);
  EXPECT_EQ(values->number("eps"), 1e-6);
  const auto twice = parse_options("muon", dion->options(), {{"mu", "0.9"}, {"momentum", "0.9"}});
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().message, "muon: momentum is given twice");
}

TEST(Dialects, ThatARecipeLacksAreToldWithThoseItHas) {
  const auto unknown = find_recipe("sgd", "keller");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().message, "sgd has no preset 'keller'");
  EXPECT_THAT(unknown.error().hint, HasSubstr("its presets are torch"));
  EXPECT_EQ((*find_recipe("lion"))->preset, "emerging");
  EXPECT_EQ((*find_recipe("muon"))->preset, "torch");
}

// The closed form of verl's factor: sqrt((1 - b1) / (1 + b1)) is 0.229416 for b1 = 0.9, 0.160128 for 0.95, 1 for 0.
TEST(Dialects, VerlMatchesTheRmsOfAdamW) {
  const Recipe* verl = *find_recipe("muon", "verl");
  const std::map<const char*, double> factors{{"0.9", 0.229416}, {"0.95", 0.160128}, {"0", 1}};
  for (const auto& [beta1, factor] : factors) {
    const auto values =
        parse_options("muon", verl->options(), {{"muon_match_adamw_update_rms", "true"}, {"beta1", beta1}});
    const Graph graph = *verl->build(*values, {{8, 2}});
    double found = 1;
    for (uint32_t v = 0; v < graph.size(); ++v)
      if (const auto* constant = std::get_if<ConstAttr>(&graph.node({v}).attr))
        if (std::abs(constant->value - factor) < 1e-6) found = constant->value;
    EXPECT_NEAR(found, factor, 1e-6) << beta1;
  }
}

}  // namespace
}  // namespace stepfuse::ir
