// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/optimizers/recipe.h"
#include "ir/support/status.h"
#include "runtime/config/condition.h"
#include "runtime/config/default_rules.h"
#include "runtime/config/glob.h"
#include "runtime/config/settings.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// What a group does to every learning rate it is given: the one of the config, and each that a schedule sets later.
struct GroupPolicy {
  double lr_mult = 1;
  std::optional<double> lr_max;

  double effective_lr(double lr) const;
};

/// An optimizer with its options settled: group over [defaults.NAME] over [defaults].
struct OptimizerChoice {
  std::string optimizer;                   // a recipe, or the path of an IR file
  ir::OptionList options;                  // those that were given, lists taken apart ("beta1", "beta2")
  ir::OptionValues values;                 // all of a recipe's; empty for an IR file
  const ir::Recipe* recipe;                // null for an IR file
  std::optional<double> lr, weight_decay;  // nothing where the optimizer has no such option
};

/// Parameters whose weight decay is 0: by role, or by name.
struct DecayExclusions {
  std::vector<Role> roles;
  Globs names;
  std::string where;  // for messages
};

struct GroupConfig {
  std::string name;
  std::string where;  // begins the messages about the group: "stepfuse.toml:9:1: group 'hidden'"
  Globs match, except;
  std::optional<Condition> condition;
  /// The optimizer; or two, of which the built-in rules choose: for hidden matrices, and for the rest.
  std::vector<OptimizerChoice> choices;
  DecayExclusions no_decay;
  GroupPolicy policy;

  bool by_name() const { return !match.empty() || !condition; }  // name rules hold where the built-in rules choose
};

/// A matrix whose name no rule knows, where the built-in rules choose.
enum class UnknownMatrix : uint8_t { Hidden, Rest, Error };  // "muon", "adamw", "error"

/// A value of [defaults] and the optimizers that take it.
struct DefaultOption {
  std::string where;  // begins a message: "stepfuse.toml:3:1: betas"
  std::vector<std::string> takers;
};

/// A config that has been checked as far as it can be without the parameters.
struct Config {
  std::string name = "config";                     // of the file; for messages
  StatusCode blame = StatusCode::InvalidArgument;  // of errors: InvalidData when a file is at fault
  bool strict = false;
  std::vector<SettingSource> settings;   // for Context::Options::file
  std::vector<GroupConfig> groups;       // in the order of the file
  std::optional<GroupConfig> unmatched;  // what takes the parameters that no group matches; nothing: an error
  UnknownMatrix unknown_2d = UnknownMatrix::Hidden;
  std::vector<DefaultOption> defaults;
  std::vector<std::string> notes;  // inactive options, old names: to be said once
};

// Both spellings go through one schema; docs/config.md describes it. Errors name the place, the key, what is legal and
// the nearest name. Pairs are as on the command line: {"lr", "0.02"}, {"muon.lr", "0.02"}, {"group.hidden.match",
// "h.*"},
// {"settings.threads", "2"}; over a file, they replace what it says.
Result<Config> load_config(const std::string& path, const ir::OptionList& pairs = {});
Result<Config> parse_config(std::string_view toml, std::string_view name, const ir::OptionList& pairs = {});
Result<Config> config_from_pairs(const ir::OptionList& pairs);

/// Every error instead of the first; without any, `config` is what load_config returns.
struct CheckedConfig {
  Config config;
  std::vector<Status> errors;
};
CheckedConfig check_config(const std::string& path, const ir::OptionList& pairs = {});

}  // namespace stepfuse::runtime
