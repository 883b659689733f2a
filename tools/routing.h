// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/optimizers/recipe.h"
#include "runtime/rule.h"
#include "tools/cli_options.h"

#include <string>
#include <vector>

namespace stepfuse::tools {

/// A rule as the optimizer object takes it, and as made.
struct RoutedRule {
  std::string recipe;  // built-in name or IR text
  ir::OptionList options;
  runtime::Rule rule;
};

/// Which rule each parameter gets: that of --recipe, else the built-in default.
class Routing {
 public:
  /// Checks --recipe, --preset and --set. Reads the IR file, or stdin for "-".
  static Result<Routing> create(const Arguments& arguments);

  const std::vector<RoutedRule>& rules() const { return rules_; }
  size_t rule_of(const std::string& name, const std::vector<int64_t>& shape) const;  // index into rules()
  bool chosen() const { return chosen_; }                                            // by --recipe

 private:
  bool chosen_ = true;
  std::vector<RoutedRule> rules_;
};

/// What a reader of a rule should know and the graph does not say; empty if there is nothing.
std::string remark_on(const RoutedRule& rule);
std::string remark_on(const ir::Recipe& recipe, const ir::OptionValues& values);

}  // namespace stepfuse::tools
