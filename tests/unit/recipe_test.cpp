// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Options of recipes: defaults, names, ranges, and what they do to the graph.
#include "ir/optimizers/recipe.h"

#include "ir/interpreter.h"
#include "ir/verify.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::ir {
namespace {

using testing::HasSubstr;

Result<OptionValues> options_of(const std::string& recipe, const OptionList& given) {
  const Recipe* found = *find_recipe(recipe);
  auto values = parse_options(recipe, found->options(), given);
  if (!values) return values;
  if (auto outcome = found->validate(*values); !outcome) return fail(outcome.error());
  return values;
}

Result<Graph> graph_of(const std::string& recipe, const OptionList& given, const ParameterSpec& spec) {
  const auto values = options_of(recipe, given);
  if (!values) return fail(values.error());
  return (*find_recipe(recipe))->build(*values, spec);
}

struct Default {
  const char* recipe;
  const char* option;
  double value;
};

TEST(RecipeOptions, DefaultsAreThoseOfTorch) {
  for (const Default& d : std::vector<Default>{{"adamw", "lr", 1e-3},
                                               {"adamw", "beta1", 0.9},
                                               {"adamw", "beta2", 0.999},
                                               {"adamw", "eps", 1e-8},
                                               {"adamw", "weight_decay", 0.01},
                                               {"adamw", "amsgrad", 0},
                                               {"adamw", "maximize", 0},
                                               {"adam", "lr", 1e-3},
                                               {"adam", "weight_decay", 0},
                                               {"adam", "eps", 1e-8},
                                               {"sgd", "lr", 1e-3},
                                               {"sgd", "momentum", 0},
                                               {"sgd", "dampening", 0},
                                               {"sgd", "weight_decay", 0},
                                               {"sgd", "nesterov", 0},
                                               {"sgd", "maximize", 0},
                                               {"muon", "lr", 1e-3},
                                               {"muon", "weight_decay", 0.1},
                                               {"muon", "momentum", 0.95},
                                               {"muon", "nesterov", 1},
                                               {"muon", "ns_a", 3.4445},
                                               {"muon", "ns_b", -4.775},
                                               {"muon", "ns_c", 2.0315},
                                               {"muon", "eps", 1e-7},
                                               {"muon", "ns_steps", 5}}) {
    EXPECT_EQ(options_of(d.recipe, {})->number(d.option), d.value) << d.recipe << " " << d.option;
  }
  EXPECT_EQ(options_of("muon", {})->choice("adjust_lr_fn"), "original");
}

TEST(RecipeOptions, EveryDefaultIsLegalAndDescribed) {
  for (const Recipe& recipe : all_recipes()) {
    std::set<std::string_view> names;
    for (const OptionInfo& info : recipe.options()) {
      EXPECT_TRUE(names.insert(info.name).second) << recipe.name << " " << info.name;
      EXPECT_FALSE(info.description.empty() || info.source.empty()) << recipe.name << " " << info.name;
      EXPECT_TRUE(options_of(std::string(recipe.name), {{std::string(info.name), std::string(info.default_text)}}))
          << recipe.name << " " << info.name;
    }
  }
}

TEST(RecipeOptions, PairsAndTheirElements) {
  for (const char* text : {"0.8,0.95", "(0.8,0.95)", "[0.8,0.95]"}) {
    const auto values = options_of("adamw", {{"betas", text}});
    ASSERT_TRUE(values.has_value()) << text << ": " << values.error().message;
    EXPECT_EQ(values->number("beta1"), 0.8);
    EXPECT_EQ(values->number("beta2"), 0.95);
  }
  const auto one = options_of("adamw", {{"beta2", "0.95"}});
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->number("beta1"), 0.9);
  EXPECT_EQ(one->number("beta2"), 0.95);
  EXPECT_TRUE(options_of("adamw", {{"beta1", "0.5"}, {"beta2", "0.95"}}).has_value());
  for (const char* text : {"0.9", "0.9,0.99,0.999", "", "0.9,", "(0.9,0.99", "0.9;0.99"})
    EXPECT_FALSE(options_of("adamw", {{"betas", text}}).has_value()) << text;
}

TEST(RecipeOptions, NothingIsGivenTwice) {
  for (const OptionList& twice : std::vector<OptionList>{{{"lr", "1"}, {"lr", "1"}},
                                                         {{"betas", "0.9,0.99"}, {"beta1", "0.9"}},
                                                         {{"beta2", "0.9"}, {"betas", "0.9,0.99"}},
                                                         {{"beta1", "0.9"}, {"beta1", "0.8"}}}) {
    const auto values = options_of("adamw", twice);
    ASSERT_FALSE(values.has_value());
    EXPECT_THAT(values.error().message, HasSubstr("is given twice"));
  }
}

TEST(RecipeOptions, UnknownNamesGetTheNearest) {
  struct Misspelt {
    const char *recipe, *option, *hint;
  };
  for (const Misspelt& m : {Misspelt{"muon", "momentun", "momentum"},
                            {"adamw", "weight_decey", "weight_decay"},
                            {"sgd", "nestrov", "nesterov"},
                            {"muon", "betas", "the options are lr, momentum"},
                            {"adamw", "ns_steps", "the options are"}}) {
    const auto values = options_of(m.recipe, {{m.option, "0.9"}});
    ASSERT_FALSE(values.has_value()) << m.option;
    EXPECT_EQ(values.error().code, StatusCode::InvalidArgument);
    EXPECT_EQ(values.error().message, fmt::format("{} has no option '{}'", m.recipe, m.option));
    EXPECT_THAT(values.error().hint, HasSubstr(m.hint));
  }
  EXPECT_THAT(find_recipe("adamv").error().hint, HasSubstr("adamw"));
  EXPECT_THAT(find_recipe("").error().hint, HasSubstr("muon"));
}

struct Value {
  const char *recipe, *option, *text;
};

TEST(RecipeOptions, RefusesWhatIsOutOfRange) {
  for (const Value& v : std::vector<Value>{{"adamw", "lr", "-0.1"},
                                           {"adamw", "lr", "nan"},
                                           {"adamw", "lr", "inf"},
                                           {"adamw", "lr", "1e999"},
                                           {"adamw", "lr", ""},
                                           {"adamw", "lr", "1e-3x"},
                                           {"adamw", "lr", "fast"},
                                           {"adamw", "beta2", "1.0"},
                                           {"adamw", "beta2", "-0.2"},
                                           {"adamw", "betas", "0.9,1"},
                                           {"adamw", "betas", "nan,0.9"},
                                           {"adamw", "eps", "-1"},
                                           {"adamw", "weight_decay", "-0.01"},
                                           {"adamw", "amsgrad", "maybe"},
                                           {"sgd", "momentum", "1"},
                                           {"sgd", "momentum", "-0.1"},
                                           {"sgd", "dampening", "nan"},
                                           {"muon", "momentum", "1"},
                                           {"muon", "ns_steps", "0"},
                                           {"muon", "ns_steps", "-1"},
                                           {"muon", "ns_steps", "100"},
                                           {"muon", "ns_steps", "2.5"},
                                           {"muon", "ns_coefficients", "1,inf,2"},
                                           {"muon", "ns_coefficients", "1,2"},
                                           {"muon", "adjust_lr_fn", "Original"},
                                           {"muon", "ns_dtype", "f16"},
                                           {"muon", "eps", "-1e-7"},
                                           {"muon", "nesterov", "yes"}}) {
    const auto values = options_of(v.recipe, {{v.option, v.text}});
    ASSERT_FALSE(values.has_value()) << v.recipe << " " << v.option << "=" << v.text;
    EXPECT_EQ(values.error().code, StatusCode::InvalidArgument);
    EXPECT_THAT(values.error().message, HasSubstr(v.recipe));
    EXPECT_FALSE(values.error().hint.empty()) << v.option << "=" << v.text;
  }
}

TEST(RecipeOptions, TakesTheEndsOfRanges) {
  for (const Value& v : std::vector<Value>{{"adamw", "lr", "0"},
                                           {"adamw", "beta1", "0"},
                                           {"adamw", "eps", "0"},
                                           {"adamw", "beta2", "0.999999"},
                                           {"muon", "ns_steps", "1"},
                                           {"muon", "ns_steps", "99"},
                                           {"muon", "momentum", "0"},
                                           {"sgd", "dampening", "-3"},
                                           {"muon", "ns_steps", "5.0"},
                                           {"adamw", "lr", "1e-300"},
                                           {"sgd", "nesterov", "False"}})
    EXPECT_TRUE(options_of(v.recipe, {{v.option, v.text}}).has_value()) << v.recipe << " " << v.option << "=" << v.text;
}

TEST(RecipeOptions, NesterovNeedsMomentumWithoutDampening) {
  EXPECT_TRUE(options_of("sgd", {{"nesterov", "true"}, {"momentum", "0.9"}}).has_value());
  for (const OptionList& given : std::vector<OptionList>{
           {{"nesterov", "true"}}, {{"nesterov", "true"}, {"momentum", "0.9"}, {"dampening", "0.1"}}}) {
    const auto values = options_of("sgd", given);
    ASSERT_FALSE(values.has_value());
    EXPECT_THAT(values.error().message, HasSubstr("nesterov needs momentum > 0 and dampening = 0"));
    EXPECT_FALSE(values.error().hint.empty());
  }
}

TEST(Recipes, BuildSoundGraphs) {
  for (const Recipe& recipe : all_recipes())
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64}) {
      const auto graph = graph_of(std::string(recipe.name), {}, {{6, 4}, dtype, dtype, dtype});
      ASSERT_TRUE(graph.has_value()) << recipe.name << ": " << graph.error().message;
      EXPECT_THAT(verify(*graph), testing::IsEmpty()) << recipe.name << " " << dtype_name(dtype);
    }
}

/// The constant that multiplies lr in the update.
double adjustment_of(const Graph& graph) {
  for (uint32_t i = 0; i < graph.size(); ++i)
    if (graph.value_name(ValueId{i}) == "adjusted_lr") return graph.const_value(graph.node(ValueId{i}).operands[1]);
  ADD_FAILURE() << "no adjusted_lr";
  return 0;
}

TEST(Muon, AdjustsTheLearningRateOnce) {
  struct Case {
    const char* rule;
    double tall, wide;  // 8 x 2 and 2 x 8
  };
  for (const Case& c : {Case{"original", 2.0, 1.0}, Case{"match_rms_adamw", 0.565685, 0.565685},
                        Case{"spectral_unclamped", 2.0, 0.5}}) {
    EXPECT_NEAR(adjustment_of(*graph_of("muon", {{"adjust_lr_fn", c.rule}}, {.shape = {8, 2}})), c.tall, 1e-6)
        << c.rule;
    EXPECT_NEAR(adjustment_of(*graph_of("muon", {{"adjust_lr_fn", c.rule}}, {.shape = {2, 8}})), c.wide, 1e-6)
        << c.rule;
  }
}

TEST(Muon, TakesMatricesOnly) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {8}, {2, 3, 4}}) {
    const auto graph = graph_of("muon", {}, {.shape = shape});
    ASSERT_FALSE(graph.has_value());
    EXPECT_EQ(graph.error().code, StatusCode::InvalidArgument);
    EXPECT_EQ(graph.error().message,
              fmt::format("muon takes matrices (2 dimensions); this parameter has {}", shape.size()));
    EXPECT_THAT(graph.error().hint, HasSubstr("another recipe"));
  }
}

/// In torch, with bf16 parameters and without nesterov, the update is the momentum buffer itself, and an in-place
/// division by its norm would overwrite the state.
TEST(Muon, TheIterationDoesNotTouchTheMomentumBuffer) {
  const auto graph =
      graph_of("muon", {{"nesterov", "false"}, {"momentum", "0.5"}}, {{2, 3}, DType::BF16, DType::BF16, DType::BF16});
  ASSERT_TRUE(graph.has_value());
  Bindings bindings;
  bindings.tensors["p"] = {DType::BF16, {2, 3}, {1, 1, 1, 1, 1, 1}};
  bindings.tensors["g"] = {DType::BF16, {2, 3}, {8, -4, 2, 16, 4, -8}};
  bindings.tensors["buf"] = {DType::BF16, {2, 3}, {4, 4, 4, 4, 4, 4}};
  const auto result = interpret(*graph, bindings, Evaluation::Typed);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_THAT(result->at("buf").data, testing::ElementsAre(6, 0, 3, 10, 4, -2));
}

TEST(Muon, CountsItsPeer) {
  const auto launches = [](const OptionList& given) {
    return (*find_recipe("muon"))->peer_eager(*options_of("muon", given));
  };
  EXPECT_EQ(launches({}).elementwise, 8);
  EXPECT_EQ(launches({}).products, 15);
  EXPECT_EQ(launches({{"nesterov", "false"}}).elementwise, 7);
  EXPECT_EQ(launches({{"ns_steps", "7"}}).products, 21);
}

}  // namespace
}  // namespace stepfuse::ir
