// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"
#include "ir/optimizers/recipe.h"
#include "ir/support/status.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// What an optimizer can be told: the options of a built-in recipe, or the hyperparameters of an IR file.
class Hyperparameters {
 public:
  /// `optimizer` is a recipe's own name or the path of an IR file, which is read.
  static Result<Hyperparameters> of(const std::string& optimizer);

  std::span<const ir::OptionInfo> table() const;
  const ir::OptionInfo* find(std::string_view option) const { return ir::find_option(table(), option); }
  std::vector<std::string_view> names() const;
  const ir::Recipe* recipe() const { return recipe_; }  // null for an IR file

  /// Checks the text and takes a list apart: betas=0.9,0.95 is beta1=0.9 and beta2=0.95. Errors begin with `subject`.
  Result<ir::OptionList> check(const std::string& subject, std::string_view option, const std::string& text) const;
  /// The value of `option` among `given`, which have been checked, else its default.
  std::optional<double> number(const ir::OptionList& given, std::string_view option) const;

 private:
  const ir::Recipe* recipe_ = nullptr;
  std::shared_ptr<const ir::Graph> graph_;  // of an IR file; its names are in the table
  std::vector<ir::OptionInfo> table_;
};

/// Built-in recipes by name.
std::vector<std::string> optimizer_names();
/// A recipe's name or an old one.
bool is_optimizer(std::string_view name);

/// An old or foreign spelling, and ours: "dist_muon" is "muon". Empty when there is nothing to rename.
std::string_view renamed_optimizer(std::string_view name);
std::string_view renamed_option(std::string_view optimizer, std::string_view option);

/// Of an option that no optimizer has: whose it is, when we know.
std::string foreign_option_hint(std::string_view option);

/// "torch" is legal; the other dialects are not yet; anything else gets the list. Errors begin with `subject`.
Outcome check_preset_name(const std::string& subject, std::string_view preset);

}  // namespace stepfuse::runtime
