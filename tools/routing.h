// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/optimizers/recipe.h"
#include "runtime/config/route.h"
#include "runtime/rule.h"
#include "tools/cli_options.h"

#include <optional>
#include <string>
#include <vector>

namespace stepfuse::tools {

/// A rule as the optimizer object takes it, and as made.
struct RoutedRule {
  std::string recipe;  // built-in name or IR text
  ir::OptionList options;
  runtime::Rule rule;
};

/// The groups of a model's optimizer object, and which parameter is in which.
struct RoutedModel {
  std::vector<RoutedRule> rules;
  std::vector<uint32_t> rule_of;  // by parameter
  std::vector<std::string> notes;
};

/// Which rule each parameter gets: that of --recipe, else by --config and --set, else by the built-in rules.
class Routing {
 public:
  /// Checks --recipe, --preset, --config and --set. Reads the config and the IR files, or stdin for "-".
  static Result<Routing> create(const Arguments& arguments);

  Result<RoutedModel> route(const std::vector<runtime::RoutedParameter>& parameters) const;

  const std::optional<RoutedRule>& chosen() const { return chosen_; }       // by --recipe
  const std::optional<runtime::Router>& router() const { return router_; }  // without it
  /// Of the config.
  const std::vector<runtime::SettingSource>& settings() const;

 private:
  std::optional<RoutedRule> chosen_;
  std::optional<runtime::Router> router_;
};

/// --config and --set alone.
Result<runtime::Config> read_config(const Arguments& arguments);

/// What a reader of a rule should know and the graph does not say; empty if there is nothing.
std::string remark_on(const RoutedRule& rule);
std::string remark_on(const ir::Recipe& recipe, const ir::OptionValues& values);

}  // namespace stepfuse::tools
