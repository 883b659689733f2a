// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/route.h"

#include <chrono>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using Model = std::vector<RoutedParameter>;

Router router_of(std::string_view toml) {
  auto config = parse_config(toml, "c.toml");
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return std::move(*Router::create(config ? std::move(*config) : Config()));
}

Routes routed(std::string_view toml, const Model& model) {
  auto routes = router_of(toml).route(model);
  EXPECT_TRUE(routes.has_value()) << routes.error().message;
  return routes ? std::move(*routes) : Routes();
}

/// "message | hint" of each error.
std::vector<std::string> errors_of(std::string_view toml, const Model& model) {
  std::vector<Status> errors;
  (void)router_of(toml).route(model, errors);
  std::vector<std::string> out;
  for (const Status& status : errors) out.push_back(status.message + " | " + status.hint);
  return out;
}

std::string group_name(const Routes& routes, size_t parameter) {
  return routes.groups.at(routes.parameters.at(parameter).group).name;
}

const Model kSmall{{"wte.weight", {50, 8}}, {"h.0.attn.weight", {8, 2}}, {"h.0.attn.bias", {8}}, {"ln_f.weight", {8}}};

// A20
TEST(Route, A20_EmbeddingsHeadsAndAdaptersGoToAdamW) {
  const Model model{{"wte.weight", {50, 8}},       {"wpe.weight", {50, 8}},     {"lm_head.weight", {50, 8}},
                    {"h.0.lora_A.weight", {4, 8}}, {"h.0.attn.weight", {8, 8}}, {"h.0.attn.bias", {8}},
                    {"h.0.ln_1.weight", {8}}};
  const Routes routes = routed("", model);
  std::vector<std::string> muon, reasons;
  for (size_t i = 0; i < model.size(); ++i) {
    if (routes.groups[routes.parameters[i].group].optimizer == "muon") muon.push_back(model[i].name);
    reasons.push_back(routes.parameters[i].reason);
  }
  EXPECT_THAT(muon, ElementsAre("h.0.attn.weight"));
  EXPECT_THAT(reasons,
              ElementsAre("name rule: embedding (wte)", "name rule: embedding (wpe)", "name rule: head (lm_head)",
                          "name rule: adapter (lora_A)", "name rule: hidden (attn)", "ndim is 1", "ndim is 1"));
}

TEST(Route, A20_UnknownMatricesMayBeErrors) {
  const Model model{{"frob.weight", {8, 8}}, {"nicate.weight", {4, 4}}, {"attn.weight", {8, 8}}};
  EXPECT_EQ(group_name(routed("", model), 0), "default/muon");
  EXPECT_EQ(group_name(routed("unknown_2d = 'adamw'", model), 0), "default/adamw");
  EXPECT_EQ(group_name(routed("unknown_2d = 'adamw'", model), 2), "default/muon");
  EXPECT_THAT(errors_of("unknown_2d = 'error'", model),
              ElementsAre("c.toml: no name rule knows the matrix 'frob.weight' [8, 8] (and 1 more) | match it by a "
                          "group with an optimizer, or set unknown_2d to muon or adamw"));
  EXPECT_THAT(errors_of("unknown_2d='error'\n[[group]]\nmatch=['frob*','nic*']\noptimizer='muon'", model), IsEmpty());
}

TEST(Route, MatchWhereAndExcept) {
  const Routes routes = routed(R"(
[[group]]
name = "hidden"
match = "h.*"
where = "ndim == 2"
optimizer = "muon"
[[group]]
name = "rest"
match = "*"
except = ["h.*.weight", "wte.*"]
optimizer = "sgd"
)",
                               kSmall);
  EXPECT_EQ(group_name(routes, 0), "default/adamw");
  EXPECT_EQ(group_name(routes, 1), "hidden");
  EXPECT_EQ(routes.parameters[1].reason, "group 'hidden': match h.*, where ndim == 2");
  EXPECT_EQ(group_name(routes, 2), "rest");
  EXPECT_EQ(group_name(routes, 3), "rest");
  EXPECT_THAT(routes.notes, IsEmpty());
}

TEST(Route, WhereAloneSwitchesTheNameRulesOff) {
  const Routes alone = routed("[[group]]\nname='m'\nwhere='ndim == 2'", kSmall);
  EXPECT_EQ(group_name(alone, 0), "m/muon");
  EXPECT_EQ(alone.parameters[0].reason, "group 'm': where ndim == 2; ndim is 2");
  const Routes both = routed("[[group]]\nname='m'\nmatch='*'\nwhere='ndim == 2'", kSmall);
  EXPECT_EQ(group_name(both, 0), "m/adamw");
  EXPECT_EQ(both.parameters[0].reason, "group 'm': match *, where ndim == 2; name rule: embedding (wte)");
}

TEST(Route, WeightDecayExclusionsAreGroupsOfTheirOwn) {
  const Routes routes =
      routed("[defaults]\nno_decay=['bias','embedding','ln_?.*']\n[defaults.adamw]\nweight_decay=0.1", kSmall);
  EXPECT_EQ(group_name(routes, 0), "default/adamw/no-decay");
  EXPECT_EQ(group_name(routes, 1), "default/muon");
  EXPECT_EQ(routes.parameters[0].decay_reason, "no_decay embedding");
  EXPECT_EQ(routes.parameters[1].decay_reason, "");
  EXPECT_EQ(routes.parameters[2].decay_reason, "no_decay bias");
  EXPECT_EQ(routes.parameters[3].decay_reason, "no_decay ln_?.*");
  ASSERT_EQ(routes.groups.size(), 2U);
  EXPECT_THAT(routes.groups[0].options, ElementsAre(Pair("weight_decay", "0")));
  EXPECT_EQ(routes.groups[0].weight_decay, 0);
  EXPECT_EQ(routes.groups[1].weight_decay, 0.1);  // muon's own default
  // A group's list replaces that of the defaults.
  const Routes own = routed("[defaults]\nno_decay='bias'\n[[group]]\nname='x'\nmatch='*'\nno_decay='norm'", kSmall);
  EXPECT_EQ(own.parameters[2].decay_reason, "");
  EXPECT_EQ(own.parameters[3].decay_reason, "no_decay norm");
}

/// SGD's decay is 0 unless told otherwise; a schedule that raises it must not reach the excluded parameters.
TEST(Route, ExclusionsHoldWhereTheDecayStartsAtZero) {
  const Routes routes = routed("[[group]]\nname='x'\nmatch='*'\noptimizer='sgd'\nno_decay='bias'", kSmall);
  EXPECT_EQ(routes.groups.size(), 2U);
  EXPECT_EQ(routes.parameters[2].decay_reason, "no_decay bias");
}

TEST(Route, LearningRatesAreEffective) {
  const Routes routes = routed(R"([defaults]
lr = 0.5
[[group]]
name = "slow"
match = "h.*"
optimizer = "sgd"
lr_mult = 0.5
[[group]]
name = "capped"
match = "wte.*"
optimizer = "sgd"
lr_mult = 4
lr_max = 1.5
)",
                               kSmall);
  const RouteGroup& capped = routes.groups[routes.parameters[0].group];
  EXPECT_EQ(capped.lr, 1.5);
  EXPECT_THAT(capped.options, ElementsAre(Pair("lr", "1.5")));
  EXPECT_EQ(capped.policy.effective_lr(0.25), 1);
  const RouteGroup& slow = routes.groups[routes.parameters[1].group];
  EXPECT_EQ(slow.lr, 0.25);
  EXPECT_EQ(routes.groups[routes.parameters[2].group].name, "slow");
  EXPECT_EQ(routes.groups[routes.parameters[3].group].lr, 0.5);
}

TEST(Route, ScaleIsTheRecipesOwn) {
  const Model model{{"attn.tall", {8, 2}}, {"attn.wide", {2, 8}}, {"attn.odd", {97, 37}}, {"attn.bias", {8}}};
  const auto scales = [&](std::string_view rule) {
    const Routes routes = routed(fmt::format("[defaults.muon]\nadjust_lr_fn='{}'", rule), model);
    std::vector<double> out;
    for (const Route& route : routes.parameters) out.push_back(route.scale);
    return out;
  };
  EXPECT_THAT(scales("original"), ElementsAre(2, 1, std::sqrt(97.0 / 37.0), 1));
  EXPECT_THAT(scales("match_rms_adamw"),
              ElementsAre(0.2 * std::sqrt(8.0), 0.2 * std::sqrt(8.0), 0.2 * std::sqrt(97.0), 1));
  EXPECT_THAT(scales("spectral_unclamped"), ElementsAre(2, 0.5, std::sqrt(97.0 / 37.0), 1));
}

TEST(Route, DuplicateMatchesNameBothGroups) {
  EXPECT_THAT(errors_of("[[group]]\nname='a'\nmatch='h.*'\n[[group]]\nname='b'\nmatch='*.weight'", kSmall),
              ElementsAre("c.toml:4:1: group 'b' and c.toml:1:1: group 'a' both match parameter 'h.0.attn.weight' | "
                          "add it to the except of 'a' or of 'b'"));
}

TEST(Route, UnmatchedNamesAreErrors) {
  EXPECT_THAT(errors_of("[[group]]\nname='a'\nmatch=['wte.weigth','h.*']", kSmall),
              ElementsAre("c.toml:1:1: group 'a': match 'wte.weigth' matches no parameter | did you mean "
                          "'wte.weight'?"));
  EXPECT_THAT(errors_of("[[group]]\nname='a'\nmatch='transformer.*'", kSmall),
              ElementsAre("c.toml:1:1: group 'a': match 'transformer.*' matches no parameter | there are 4 "
                          "parameters, such as 'wte.weight'"));
  EXPECT_THAT(errors_of("[[group]]\nname='a'\nmatch='wte.*'\nwhere='ndim == 1'", kSmall),
              ElementsAre("c.toml:1:1: group 'a' takes no parameter | its match, where and except together leave "
                          "nothing"));
  EXPECT_THAT(errors_of("unmatched='error'\n[[group]]\nmatch='h.*'", kSmall),
              ElementsAre("c.toml: no group matches parameter 'wte.weight' (and 1 more) | add a group that matches "
                          "it, or leave unmatched = \"error\" out"));
}

TEST(Route, ShapesThatAnOptimizerDoesNotTake) {
  EXPECT_THAT(errors_of("[[group]]\nname='a'\nmatch='*'\noptimizer='muon'", kSmall),
              ElementsAre("c.toml:1:1: group 'a': muon takes parameters of 2 dimensions, and 'h.0.attn.bias' is [8] "
                          "(and 1 more) | add where = \"ndim == 2\" to the group"));
}

TEST(Route, NamesMustDiffer) {
  EXPECT_THAT(errors_of("", {{"w", {2, 2}}, {"w", {3}}}),
              ElementsAre("parameter 'w' is there twice | names of parameters must differ"));
}

TEST(Route, WhatHasNoEffectOnTheModelIsNoted) {
  const std::string toml =
      "[defaults]\nno_decay=['bias','q.*']\n[defaults.muon]\nlr=1\n"
      "[[group]]\nname='a'\nmatch='*'\nexcept='zzz'\noptimizer='sgd'\n";
  EXPECT_THAT(routed(toml, kSmall).notes,
              ElementsAre("c.toml:5:1: group 'a': except 'zzz' matches no parameter that the group would take",
                          "c.toml:2:1: no_decay: 'q.*' matches no parameter of its groups",
                          "c.toml:4:1: lr has no effect: no parameter goes to muon"));
  EXPECT_EQ(errors_of("strict_config=true\n" + toml, kSmall).size(), 3U);
}

TEST(Route, TenThousandParametersAtOnce) {
  Model model;
  for (int layer = 0; model.size() < 10'000; ++layer)
    for (const char* name :
         {"self_attn.q_proj.weight", "mlp.up_proj.weight", "input_layernorm.weight", "mlp.gate.weight"})
      model.push_back({fmt::format("model.layers.{}.{}", layer, name), {64, 64}});
  const Router router = router_of("[[group]]\nname='a'\nmatch=['*.q_proj.*','*.up_proj.*']\noptimizer='muon'");
  const auto start = std::chrono::steady_clock::now();
  const auto routes = router.route(model);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(routes.has_value()) << routes.error().message;
  EXPECT_EQ(routes->parameters.size(), model.size());
  // bench/route_config holds it to 50 ms; this only catches what is quadratic, in a sanitizer's build too.
  EXPECT_LT(taken.count(), 5.0);
}

}  // namespace
}  // namespace stepfuse::runtime
