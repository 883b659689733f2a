// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/nearest.h"

#include <gtest/gtest.h>

namespace stepfuse {
namespace {

TEST(Nearest, CountsEdits) {
  struct Case {
    const char *a, *b;
    size_t distance;
  };
  for (const Case& c : {Case{"", "", 0}, Case{"lr", "", 2}, Case{"lr", "rl", 1}, Case{"beta1", "beta2", 1},
                        Case{"kitten", "sitting", 3}, Case{"momentum", "moment", 2}, Case{"ab", "ab", 0}}) {
    EXPECT_EQ(edit_distance(c.a, c.b), c.distance) << c.a << " " << c.b;
    EXPECT_EQ(edit_distance(c.b, c.a), c.distance) << c.b << " " << c.a;
  }
}

TEST(Nearest, FindsTypingMistakes) {
  const std::vector<std::string> names{"lr", "momentum", "weight_decay", "nesterov", "betas"};
  struct Case {
    const char *name, *found;
  };
  for (const Case& c :
       {Case{"momentun", "momentum"}, Case{"wieght_decay", "weight_decay"}, Case{"weightdecay", "weight_decay"},
        Case{"rl", "lr"}, Case{"beta", "betas"}, Case{"Nesterov", "nesterov"}, Case{"epsilon", ""}, Case{"", ""},
        Case{"x", ""}, Case{"lr", "lr"}})
    EXPECT_EQ(nearest_name(c.name, names), c.found) << c.name;
  EXPECT_EQ(did_you_mean("momentun", names), "did you mean 'momentum'?");
  EXPECT_EQ(did_you_mean("epsilon", names), "");
}

TEST(Nearest, PrefersTheCloserAndThenTheFirst) {
  const std::vector<std::string_view> names{"beta2", "beta1", "beta"};
  EXPECT_EQ(nearest_name("beta3", names), "beta2");
  EXPECT_EQ(nearest_name("bet", names), "beta");
}

TEST(Nearest, IgnoresEndlessNames) {
  const std::vector<std::string> names{std::string(100'000, 'a')};
  EXPECT_EQ(nearest_name(std::string(100'000, 'b'), names), "");
  EXPECT_EQ(nearest_name("b", names), "");
}

}  // namespace
}  // namespace stepfuse
