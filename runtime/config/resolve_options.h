// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/config/config.h"
#include "runtime/config/hyperparameters.h"
#include "runtime/config/raw_config.h"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::runtime {

/// Settles hyperparameters: those of a group over [defaults.NAME] over [defaults]. Remembers which defaults were taken.
class OptionResolver {
 public:
  /// `names`: of each section of raw.defaults_for, as optimizer_path() has it.
  OptionResolver(const RawConfig& raw, std::vector<std::string> names, Errors& errors, std::vector<std::string>& notes);

  /// The choices of a group, in the order of `optimizers`. A hyperparameter of the group that none of them has is an
  /// error. `where` begins messages about the group.
  std::vector<OptimizerChoice> resolve(const std::vector<std::string>& optimizers,
                                       const std::vector<const RawEntry*>& own, const std::string& where);

  /// Judges defaults that nobody took: unknown ones and bad values are errors; the rest is noted as having no effect,
  /// or an error too with `strict`. Call it once, after the last resolve().
  std::vector<DefaultOption> finish(bool strict);

 private:
  struct Value {
    std::string text;
    const RawEntry* entry;
  };
  using Values = std::map<std::string, Value, std::less<>>;

  const Hyperparameters* hyperparameters(const std::string& optimizer, const std::string& where);
  void overlay(const std::string& optimizer, const Hyperparameters& known, const std::vector<const RawEntry*>& level,
               Values& values);
  void check_own(const std::vector<std::string>& optimizers, const std::vector<const RawEntry*>& own);
  OptimizerChoice settle(const std::string& optimizer, const Hyperparameters& known, const Values& values,
                         const std::string& where);
  void judge_untaken(const RawEntry& entry, const std::vector<std::string>& candidates, bool strict);
  Status no_option(const RawEntry& entry, std::string_view who, const std::vector<std::string>& optimizers) const;
  std::string_view option_name(const std::string& optimizer, const RawEntry& entry);
  void error(Status status);

  const RawConfig& raw_;
  std::vector<std::string> names_;
  Errors& errors_;
  std::vector<std::string>& notes_;
  std::map<std::string, Hyperparameters> known_;  // by optimizer
  std::map<const RawEntry*, std::set<std::string>> takers_, candidates_;
};

/// Messages end up once each.
void add_once(Errors& errors, Status status);
void add_once(std::vector<std::string>& notes, std::string note);

}  // namespace stepfuse::runtime
