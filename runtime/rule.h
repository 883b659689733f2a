// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"
#include "ir/graph.h"
#include "ir/optimizers/recipe.h"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stepfuse::runtime {

/// The rule in an IR file, parsed and verified; hyperparameters may lack values.
Result<ir::Graph> read_rule(const std::string& path);

/// An update rule with its options: a built-in recipe, or the text of an IR file whose hyperparameters are the options.
class Rule {
 public:
  /// `recipe` is a built-in name, the path of an IR file (*.sfir), or IR text itself (begins with "// stepfuse-ir").
  /// All options are checked here: unknown names, values, ranges, and hyperparameters without any value.
  static Result<Rule> create(const std::string& recipe, const ir::OptionList& options);

  const std::string& name() const { return name_; }
  const ir::Recipe* recipe() const { return recipe_; }  // null for IR text

  /// The naive graph for one parameter; hyperparameter defaults in it are the values of this rule.
  Result<ir::Graph> instantiate(const ir::ParameterSpec& parameter) const;
  ir::PeerLaunches peer() const;

 private:
  std::string name_;
  const ir::Recipe* recipe_ = nullptr;
  ir::OptionValues values_;
  ir::Graph graph_;  // of IR text, hyperparameters filled in
};

}  // namespace stepfuse::runtime
