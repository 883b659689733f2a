// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// The recipes that call decompositions, and PolarGrad and Scion, which stand beside MOP: their defaults, what they
// refuse, the counts of their peers.
#include "ir/optimizers/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::ir {
namespace {

using ::testing::HasSubstr;

Result<OptionValues> options_of(const std::string& recipe, const OptionList& given = {}) {
  return parse_options(recipe, (*find_recipe(recipe))->options(), given);
}

/// As the package's constructor has them.
TEST(Soap, HasTheDefaultsOfThePackage) {
  const auto values = options_of("soap");
  ASSERT_TRUE(values.has_value()) << values.error().message;
  for (const auto& [name, value] :
       {std::pair("beta1", 0.9), std::pair("beta2", 0.95), std::pair("shampoo_beta", 0.95), std::pair("eps", 1e-8),
        std::pair("weight_decay", 0.01), std::pair("power_iter_steps", 1.0), std::pair("max_update_rms", 0.0)})
    EXPECT_EQ(values->number(name), value) << name;
  EXPECT_TRUE(values->flag("correct_bias"));
  EXPECT_FALSE(values->flag("nesterov") || values->flag("use_eigh") || values->flag("use_kl_shampoo"));
  EXPECT_EQ(values->choice("weight_decay_method"), "decoupled");
  EXPECT_EQ(values->choice("correct_shampoo_beta_bias"), "none");
}

TEST(Mop, HasTheDefaultsOfThePackage) {
  const auto values = options_of("mop");
  ASSERT_TRUE(values.has_value()) << values.error().message;
  for (const auto& [name, value] : {std::pair("lr", 3e-4), std::pair("momentum", 0.95), std::pair("weight_decay", 0.01),
                                    std::pair("extra_scale_factor", 1.0)})
    EXPECT_EQ(values->number(name), value) << name;
  EXPECT_EQ(values->choice("scale_mode"), "nuclear_norm");
  EXPECT_EQ(values->choice("fp32_matmul_prec"), "highest");
}

TEST(PolarGradAndScion, HaveTheDefaultsOfThePackage) {
  for (const char* recipe : {"polargrad", "scion"}) {
    const auto values = options_of(recipe);
    ASSERT_TRUE(values.has_value()) << values.error().message;
    EXPECT_EQ(values->number("lr"), 3e-4);
    EXPECT_EQ(values->number("momentum"), 0.95);
    EXPECT_EQ(values->number("ns_steps"), 5);
    EXPECT_EQ(values->choice("coefficient_type"), "quintic");
  }
  EXPECT_EQ(options_of("polargrad")->choice("fp32_matmul_prec"), "highest");
  EXPECT_EQ(options_of("scion")->choice("fp32_matmul_prec"), "medium");
  EXPECT_FALSE(options_of("scion")->has("weight_decay"));
}

/// PolarGrad without iterations is the package's way to test it; Scion has none.
TEST(PolarGradAndScion, CheckTheirStepCounts) {
  const auto check = [](const char* recipe, const OptionList& given) {
    const auto values = options_of(recipe, given);
    return values ? (*find_recipe(recipe))->validate(*values) : Outcome(fail(values.error()));
  };
  EXPECT_TRUE(check("polargrad", {{"num_ns_steps", "0"}}));
  EXPECT_FALSE(check("scion", {{"num_ns_steps", "0"}}));
  for (const char* recipe : {"polargrad", "scion"}) {
    EXPECT_FALSE(check(recipe, {{"ns_steps", "6"}})) << "quintic at 6 steps collapses";
    EXPECT_TRUE(check(recipe, {{"ns_steps", "6"}, {"unsafe_ns_steps", "true"}}));
    EXPECT_TRUE(check(recipe, {{"ns_steps", "8"}, {"coefficient_type", "polar_express"}}));
  }
}

TEST(LibraryRecipes, NameTheLegalValues) {
  struct Bad {
    const char *recipe, *option, *value, *hint;
  };
  for (const Bad& bad :
       {Bad{"soap", "shampoo_beta", "1", "a number in [0, 1)"}, Bad{"soap", "power_iter_steps", "1.5", "an integer"},
        Bad{"soap", "weight_decay_method", "adamw", "one of decoupled, independent, l2, palm"},
        Bad{"soap", "max_update_rms", "-1", "[0, inf)"},
        Bad{"soap", "fp32_matmul_prec", "low", "highest, high, medium"},
        Bad{"mop", "scale_mode", "match_rms_adamw", "one of nuclear_norm, shape_scaling, spectral, unit_rms_norm"}}) {
    const auto values = options_of(bad.recipe, {{bad.option, bad.value}});
    ASSERT_FALSE(values.has_value()) << bad.option;
    EXPECT_THAT(values.error().message, HasSubstr(bad.option));
    EXPECT_THAT(values.error().hint, HasSubstr(bad.hint));
  }
}

TEST(LibraryRecipes, TakeMatricesOnly) {
  for (const char* recipe : {"soap", "mop", "polargrad", "scion"}) {
    const auto graph = (*find_recipe(recipe))->build(*options_of(recipe), {.shape = {2, 3, 4}});
    ASSERT_FALSE(graph.has_value());
    EXPECT_EQ(graph.error().message, std::string(recipe) + " takes matrices (2 dimensions); this parameter has 3");
  }
}

struct Counts {
  const char* recipe;
  OptionList options;
  int64_t elementwise, products, library;
};

/// Counted on the package.
TEST(LibraryRecipes, CountTheirPeers) {
  for (const Counts& c : std::vector<Counts>{{"soap", {}, 20, 14, 4},
                                             {"soap", {{"use_eigh", "true"}}, 24, 12, 4},
                                             {"soap", {{"nesterov", "true"}}, 24, 14, 4},
                                             {"soap", {{"max_update_rms", "1"}}, 28, 14, 4},
                                             {"soap", {{"use_kl_shampoo", "true"}}, 32, 20, 4},
                                             {"soap", {{"power_iter_steps", "3"}}, 20, 18, 8},
                                             {"soap", {{"weight_decay", "0"}}, 19, 14, 4},
                                             {"polargrad", {}, 10, 15, 0},
                                             {"scion", {}, 10, 15, 0},
                                             {"mop", {}, 6, 1, 1},
                                             {"mop", {{"nesterov", "true"}}, 7, 1, 1},
                                             {"mop", {{"scale_mode", "spectral"}}, 5, 1, 1}}) {
    const PeerLaunches peer = (*find_recipe(c.recipe))->peer_eager(*options_of(c.recipe, c.options));
    EXPECT_EQ(peer.elementwise, c.elementwise) << c.recipe;
    EXPECT_EQ(peer.products, c.products) << c.recipe;
    EXPECT_EQ(peer.library, c.library) << c.recipe;
  }
}

}  // namespace
}  // namespace stepfuse::ir
