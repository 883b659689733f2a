// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/condition.h"

#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

bool holds(const char* text, const RoutedParameter& parameter) {
  const auto condition = Condition::parse(text);
  EXPECT_TRUE(condition.has_value()) << text << ": " << condition.error().message;
  return condition && condition->holds(parameter);
}

const RoutedParameter kMatrix{"h.0.attn.weight", {8, 3}, ir::DType::BF16};

TEST(Condition, ComparesEveryQuantity) {
  for (const char* text :
       {"ndim == 2", "ndim != 1", "numel == 24", "rows > 7", "rows >= 8", "cols < 4", "cols <= 3", "rows > cols",
        "dtype == bf16", "dtype != 'f32'", "name == 'h.*.weight'", "name != \"wte*\"", "  ndim==2  "})
    EXPECT_TRUE(holds(text, kMatrix)) << text;
  for (const char* text : {"ndim < 2", "numel > 24", "rows < cols", "dtype == f32", "name == 'attn'"})
    EXPECT_FALSE(holds(text, kMatrix)) << text;
}

TEST(Condition, AndBindsTighterThanOr) {
  EXPECT_TRUE(holds("ndim == 2 or ndim == 1 and rows == 9", kMatrix));
  EXPECT_FALSE(holds("(ndim == 2 or ndim == 1) and rows == 9", kMatrix));
  EXPECT_FALSE(holds("not ndim == 2 or rows == 9", kMatrix));
  EXPECT_TRUE(holds("not (ndim == 2 and rows == 9)", kMatrix));
  EXPECT_TRUE(holds("not not ndim == 2", kMatrix));
}

TEST(Condition, RowsAreTheFirstExtent) {
  EXPECT_TRUE(holds("rows == 4 and cols == 18 and numel == 72", {"conv", {4, 2, 3, 3}}));
  EXPECT_TRUE(holds("rows == 7 and cols == 1 and ndim == 1", {"bias", {7}}));
  EXPECT_TRUE(holds("rows == 1 and cols == 1 and numel == 1 and ndim == 0", {"scale", {}}));
  EXPECT_TRUE(holds("numel == 0", {"empty", {0, 5}}));
}

TEST(Condition, ErrorsNameTheColumn) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "column 1 of \"\": expected ndim, numel, rows, cols, dtype or name, got the end"},
      {"ndmi == 2", "column 1 of \"ndmi == 2\": expected ndim, numel, rows, cols, dtype or name, got 'ndmi'"},
      {"ndim = 2", "column 6 of \"ndim = 2\": expected == != < <= > or >=, got '='"},
      {"ndim", "column 5 of \"ndim\": expected == != < <= > or >=, got the end"},
      {"ndim == two", "column 9 of \"ndim == two\": expected ndim, numel, rows, cols, dtype or name, got 'two'"},
      {"ndim == -1", "column 9 of \"ndim == -1\": expected a whole number, got '-'"},
      {"ndim == 'x'", "column 9 of \"ndim == 'x'\": expected a whole number, got 'x'"},
      {"ndim == 99999999999999999999",
       "column 9 of \"ndim == 99999999999999999999\": expected a whole number, got '99999999999999999999'"},
      {"ndim == dtype", "column 9 of \"ndim == dtype\": expected a number, got 'dtype'"},
      {"dtype == f33", "column 10 of \"dtype == f33\": expected f32, bf16, f16 or f64, got 'f33'"},
      {"dtype < f32", "column 7 of \"dtype < f32\": expected == or !=, got '<'"},
      {"name == wte", "column 9 of \"name == wte\": expected a pattern in quotes, got 'wte'"},
      {"name == 'wte", "column 9 of \"name == 'wte\": the quote is not closed"},
      {"(ndim == 2", "column 11 of \"(ndim == 2\": expected ')', got the end"},
      {"ndim == 2 rows == 1", "column 11 of \"ndim == 2 rows == 1\": expected 'and', 'or' or the end, got 'rows'"},
      {"ndim == 2 &", "column 11 of \"ndim == 2 &\": expected 'and', 'or' or the end, got '&'"}};
  for (const auto& [text, message] : cases) {
    const auto condition = Condition::parse(text);
    ASSERT_FALSE(condition.has_value()) << text;
    EXPECT_EQ(condition.error().message, message);
  }
}

/// A chain is evaluated as deep as it is long: a hundred thousand terms would end the process.
TEST(Condition, LongChainsAreRefused) {
  std::string text = "ndim == 2";
  for (int i = 0; i < 100'000; ++i) text += " or ndim == 9";
  const auto condition = Condition::parse(text);
  ASSERT_FALSE(condition);
  EXPECT_EQ(condition.error().message, "the condition has more than 1000 terms");
  EXPECT_EQ(condition.error().hint, "give names as a list of patterns in match");
}

TEST(Condition, DeepNestingIsRefused) {
  EXPECT_FALSE(Condition::parse(std::string(100'000, '(')).has_value());
  EXPECT_TRUE(Condition::parse(std::string(40, '(') + "ndim == 2" + std::string(40, ')')).has_value());
}

}  // namespace
}  // namespace stepfuse::runtime
