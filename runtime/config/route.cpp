// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/route.h"

#include "ir/support/nearest.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace stepfuse::runtime {

namespace {

/// Which patterns of a list have matched at least once; those that have not are looked at to the end.
class Patterns {
 public:
  explicit Patterns(const Globs& globs) : globs_(globs), hit_(globs.size(), false) {}

  /// The first pattern that matches; null if none does.
  const Glob* find(const std::string& name) {
    const Glob* found = nullptr;
    for (size_t i = 0; i < globs_.size(); ++i) {
      if ((found != nullptr && hit_[i]) || !globs_[i].matches(name)) continue;
      hit_[i] = true;
      if (found == nullptr) found = &globs_[i];
    }
    return found;
  }

  std::vector<const Glob*> unused() const {
    std::vector<const Glob*> out;
    for (size_t i = 0; i < globs_.size(); ++i)
      if (!hit_[i]) out.push_back(&globs_[i]);
    return out;
  }

 private:
  const Globs& globs_;
  std::vector<bool> hit_;
};

/// A group while a model is routed.
struct OpenGroup {
  explicit OpenGroup(const GroupConfig& group)
      : config(&group), match(group.match), except(group.except), no_decay(group.no_decay.names) {}

  const GroupConfig* config;
  Patterns match, except, no_decay;
  bool taken = false;
};

std::string number_text(double number) { return fmt::format("{}", number); }

/// `value` for `name`, in its place.
void set_option(ir::OptionList& options, std::string_view name, double value) {
  for (auto& [key, text] : options)
    if (key == name) {
      text = number_text(value);
      return;
    }
  options.emplace_back(name, number_text(value));
}

class ModelRouter {
 public:
  ModelRouter(const Config& config, const std::vector<RoutedParameter>& parameters, std::vector<Status>& errors)
      : config_(config), parameters_(parameters), errors_(errors) {
    for (const GroupConfig& group : config.groups) groups_.emplace_back(group);
    if (config.unmatched) groups_.emplace_back(*config.unmatched);
  }

  Routes route() {
    routes_.notes = config_.notes;
    routes_.parameters.reserve(parameters_.size());
    check_repeated_names();
    for (const RoutedParameter& parameter : parameters_) routes_.parameters.push_back(route_one(parameter));
    check_unused();
    check_defaults();
    count_repeated();
    return std::move(routes_);
  }

 private:
  void error(std::string message, std::string hint) {
    errors_.push_back({config_.blame, std::move(message), std::move(hint)});
  }

  /// What is wrong for one layer is wrong for all: the first parameter is named, the others of one `kind` are counted.
  void error_of(const std::string& kind, std::string message, std::string hint) {
    const auto [it, first] = repeated_.try_emplace(kind, errors_.size(), 0);
    if (first)
      error(std::move(message), std::move(hint));
    else
      ++it->second.second;
  }

  void count_repeated() {
    for (const auto& [kind, entry] : repeated_)
      if (entry.second > 0) errors_[entry.first].message += fmt::format(" (and {} more)", entry.second);
  }

  /// What has no effect on this model.
  void ineffective(std::string message) {
    if (config_.strict)
      error(std::move(message), "take it out, or leave strict_config off");
    else
      routes_.notes.push_back(std::move(message));
  }

  void check_repeated_names() {
    std::vector<std::string_view> names;
    for (const RoutedParameter& parameter : parameters_) names.push_back(parameter.name);
    std::sort(names.begin(), names.end());
    if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
      error(fmt::format("parameter '{}' is there twice", *twice), "names of parameters must differ");
  }

  /// Why `group` takes the parameter; empty if it does not. Every pattern is asked, so that unused ones come out.
  static std::string claim(OpenGroup& group, const RoutedParameter& parameter) {
    const GroupConfig& config = *group.config;
    std::string reason = fmt::format("group '{}':", config.name);
    if (!config.match.empty()) {
      const Glob* glob = group.match.find(parameter.name);
      if (glob == nullptr) return {};
      reason += fmt::format(" match {}", glob->text());
    }
    if (config.condition) {
      if (!config.condition->holds(parameter)) return {};
      reason += fmt::format("{} where {}", config.match.empty() ? "" : ",", config.condition->text());
    }
    return group.except.find(parameter.name) == nullptr ? reason : std::string();
  }

  void both_match(const GroupConfig& first, const GroupConfig& second, const RoutedParameter& parameter) {
    error_of(first.where + second.where,
             fmt::format("{} and {} both match parameter '{}'", second.where, first.where, parameter.name),
             fmt::format("add it to the except of '{}' or of '{}'", first.name, second.name));
  }

  Route route_one(const RoutedParameter& parameter) {
    OpenGroup* owner = nullptr;
    std::string reason;
    for (size_t i = 0; i < config_.groups.size(); ++i) {
      std::string claimed = claim(groups_[i], parameter);
      if (claimed.empty()) continue;
      if (owner != nullptr) both_match(*owner->config, *groups_[i].config, parameter);
      groups_[i].taken = true;
      if (owner == nullptr) reason = std::move(claimed);
      if (owner == nullptr) owner = &groups_[i];
    }
    if (owner != nullptr) return settle(*owner, parameter, std::move(reason));
    if (config_.unmatched) return settle(groups_.back(), parameter, {});
    error_of("unmatched", fmt::format("{}: no group matches parameter '{}'", config_.name, parameter.name),
             "add a group that matches it, or leave unmatched = \"error\" out");
    return {};
  }

  Route settle(OpenGroup& group, const RoutedParameter& parameter, std::string reason) {
    const GroupConfig& config = *group.config;
    const NamedRole named = role_of(parameter.name);
    size_t choice = 0;
    if (config.choices.size() > 1) {
      const DefaultChoice built_in = default_choice(named, parameter.shape, config.by_name());
      choice = matrix_choice(built_in, config, parameter) ? 0 : 1;
      reason += (reason.empty() ? "" : "; ") + built_in.reason;
    }
    const OptimizerChoice& optimizer = config.choices[choice];
    Route route;
    route.reason = std::move(reason);
    route.decay_reason = exclusion(group, named, parameter);
    // A decay of 0 counts: a schedule may raise it.
    if (!optimizer.weight_decay) route.decay_reason.clear();
    route.scale = scale_of(config, optimizer, parameter);
    route.group = group_of(config, choice, !route.decay_reason.empty());
    return route;
  }

  bool matrix_choice(const DefaultChoice& built_in, const GroupConfig& config, const RoutedParameter& parameter) {
    const bool unknown = built_in.matrix && built_in.role == Role::Unknown && config.by_name();
    if (!unknown || config_.unknown_2d == UnknownMatrix::Hidden) return built_in.matrix;
    if (config_.unknown_2d == UnknownMatrix::Error)
      error_of("unknown_2d",
               fmt::format("{}: no name rule knows the matrix '{}' [{}]", config_.name, parameter.name,
                           fmt::join(parameter.shape, ", ")),
               "match it by a group with an optimizer, or set unknown_2d to muon or adamw");
    return false;
  }

  /// Why the parameter's weight decay is 0; empty if it is not.
  static std::string exclusion(OpenGroup& group, const NamedRole& named, const RoutedParameter& parameter) {
    const DecayExclusions& no_decay = group.config->no_decay;
    const Glob* glob = group.no_decay.find(parameter.name);
    if (std::find(no_decay.roles.begin(), no_decay.roles.end(), named.role) != no_decay.roles.end())
      return fmt::format("no_decay {}", role_name(named.role));
    return glob != nullptr ? fmt::format("no_decay {}", glob->text()) : std::string();
  }

  /// The factor on lr by shape, for a shape that the optimizer takes.
  double scale_of(const GroupConfig& config, const OptimizerChoice& choice, const RoutedParameter& parameter) {
    const ir::Recipe* recipe = choice.recipe;
    if (recipe == nullptr) return 1;
    if (recipe->dimensions != 0 && recipe->dimensions != parameter.shape.size()) {
      error_of(config.where,
               fmt::format("{}: {} takes parameters of {} dimensions, and '{}' is [{}]", config.where, recipe->name,
                           recipe->dimensions, parameter.name, fmt::join(parameter.shape, ", ")),
               fmt::format("add where = \"ndim == {}\" to the group", recipe->dimensions));
      return 1;
    }
    return recipe->lr_scale != nullptr ? recipe->lr_scale(choice.values, parameter.shape) : 1;
  }

  uint32_t group_of(const GroupConfig& config, size_t choice, bool excluded) {
    const auto [it, made] = made_.try_emplace({&config, choice, excluded}, routes_.groups.size());
    if (made) routes_.groups.push_back(make_group(config, choice, excluded));
    return it->second;
  }

  static RouteGroup make_group(const GroupConfig& config, size_t index, bool excluded) {
    const OptimizerChoice& choice = config.choices[index];
    RouteGroup group;
    group.name = config.name;
    if (config.choices.size() > 1) group.name += "/" + choice.optimizer;
    if (excluded) group.name += "/no-decay";
    group.optimizer = choice.optimizer;
    group.options = choice.options;
    group.policy = config.policy;
    group.weight_decay = choice.weight_decay;
    if (choice.lr) {
      group.lr = config.policy.effective_lr(*choice.lr);
      if (*group.lr != *choice.lr) set_option(group.options, "lr", *group.lr);
    }
    if (excluded) {
      group.weight_decay = 0;
      set_option(group.options, "weight_decay", 0);
    }
    return group;
  }

  std::string nearest_parameter(const std::string& pattern) const {
    std::vector<std::string> names;
    for (const RoutedParameter& parameter : parameters_) names.push_back(parameter.name);
    const std::string hint = did_you_mean(pattern, names);
    if (!hint.empty() || names.empty()) return hint;
    return fmt::format("there are {} parameters, such as '{}'", names.size(), names.front());
  }

  void check_unused() {
    for (const OpenGroup& group : groups_) {
      const bool built_in = config_.unmatched && group.config == &*config_.unmatched;
      const auto unused = group.match.unused();
      for (const Glob* glob : unused)
        error(fmt::format("{}: match '{}' matches no parameter", group.config->where, glob->text()),
              nearest_parameter(glob->text()));
      if (!built_in && !group.taken && unused.empty())
        error(fmt::format("{} takes no parameter", group.config->where),
              "its match, where and except together leave nothing");
      for (const Glob* glob : group.except.unused())
        ineffective(fmt::format("{}: except '{}' matches no parameter that the group would take", group.config->where,
                                glob->text()));
    }
    check_exclusions();
  }

  /// A name pattern of no_decay must hit in one of the groups that have it.
  void check_exclusions() {
    std::map<std::pair<std::string, std::string>, bool> hits;
    for (const OpenGroup& group : groups_) {
      const auto unused = group.no_decay.unused();
      for (const Glob& glob : group.config->no_decay.names) {
        const bool hit = std::find(unused.begin(), unused.end(), &glob) == unused.end();
        hits[{group.config->no_decay.where, glob.text()}] |= hit;
      }
    }
    for (const auto& [key, hit] : hits)
      if (!hit) ineffective(fmt::format("{}: '{}' matches no parameter of its groups", key.first, key.second));
  }

  /// Values of [defaults] whose optimizers got nothing.
  void check_defaults() {
    for (const DefaultOption& option : config_.defaults) {
      const auto used = [&](const std::string& taker) {
        return std::any_of(routes_.groups.begin(), routes_.groups.end(),
                           [&](const RouteGroup& group) { return group.optimizer == taker; });
      };
      if (std::none_of(option.takers.begin(), option.takers.end(), used))
        ineffective(
            fmt::format("{} has no effect: no parameter goes to {}", option.where, fmt::join(option.takers, " or ")));
    }
  }

  const Config& config_;
  const std::vector<RoutedParameter>& parameters_;
  std::vector<Status>& errors_;
  std::vector<OpenGroup> groups_;  // the unmatched parameters' last
  std::map<std::tuple<const GroupConfig*, size_t, bool>, uint32_t> made_;
  Routes routes_;
  std::map<std::string, std::pair<size_t, size_t>> repeated_;  // by kind: the error's index, how many more
};

}  // namespace

Result<Router> Router::create(Config config) {
  for (const GroupConfig& group : config.groups)
    STEPFUSE_CHECK(!group.choices.empty(), "{} was not checked", group.where);
  return Router(std::move(config));
}

Routes Router::route(const std::vector<RoutedParameter>& parameters, std::vector<Status>& errors) const {
  return ModelRouter(config_, parameters, errors).route();
}

Result<Routes> Router::route(const std::vector<RoutedParameter>& parameters) const {
  std::vector<Status> errors;
  Routes routes = route(parameters, errors);
  if (!errors.empty()) return fail(std::move(errors.front()));
  return routes;
}

}  // namespace stepfuse::runtime
