// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/glob.h"

#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

bool matches(const char* pattern, std::string_view name) { return Glob::compile(pattern).value().matches(name); }

TEST(Glob, StandsForTheWholeName) {
  EXPECT_TRUE(matches("wte.weight", "wte.weight"));
  EXPECT_FALSE(matches("wte", "wte.weight"));
  EXPECT_FALSE(matches("weight", "wte.weight"));
  EXPECT_FALSE(matches("WTE.weight", "wte.weight"));
}

TEST(Glob, StarCrossesDots) {
  EXPECT_TRUE(matches("h.*.weight", "h.0.attn.c_attn.weight"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*.bias", "h.bias.bias"));
  EXPECT_TRUE(matches("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(matches("a*b*c", "aXcYb"));
  EXPECT_FALSE(matches("h.*.weight", "h.weight"));
}

TEST(Glob, QuestionMarkIsOneCharacter) {
  EXPECT_TRUE(matches("ln_?.*", "ln_1.bias"));
  EXPECT_FALSE(matches("ln_?", "ln_12"));
  EXPECT_FALSE(matches("ln_?", "ln_"));
}

TEST(Glob, Sets) {
  EXPECT_TRUE(matches("h.[0-3].*", "h.2.w"));
  EXPECT_FALSE(matches("h.[0-3].*", "h.4.w"));
  EXPECT_TRUE(matches("[!w]pe", "ape"));
  EXPECT_FALSE(matches("[!w]pe", "wpe"));
  EXPECT_TRUE(matches("[]x]", "]"));
  EXPECT_TRUE(matches("a[[]0]", "a[0]"));
  EXPECT_TRUE(matches("[a-]", "-"));
}

TEST(Glob, ManyStarsDoNotTakeForever) {
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  EXPECT_FALSE(matches((pattern + "b").c_str(), std::string(2000, 'a')));
}

TEST(Glob, RefusesWhatIsNoPattern) {
  EXPECT_EQ(Glob::compile("").error().message, "a name pattern is empty");
  EXPECT_EQ(Glob::compile("h.[12").error().message, "'h.[12': the [ at 3 is not closed");
  EXPECT_EQ(Glob::compile("[]").error().message, "'[]': the [ at 1 is not closed");
}

}  // namespace
}  // namespace stepfuse::runtime
