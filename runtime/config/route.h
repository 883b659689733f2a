// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/config/config.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// One group of the optimizer object. Parameters of one [[group]] that differ in weight decay or in optimizer are
/// groups of their own.
struct RouteGroup {
  std::string name;                    // "hidden", "hidden/no-decay"; of the built-in rules "default/muon"
  std::string optimizer;               // for Optimizer::add_group: a recipe or the path of an IR file
  ir::OptionList options;              // for Optimizer::add_group; lr is the effective one
  GroupPolicy policy;                  // to be applied whenever lr is set later
  std::optional<double> lr;            // effective; nothing where the optimizer has no learning rate
  std::optional<double> weight_decay;  // 0 for excluded parameters
};

struct Route {
  uint32_t group = 0;
  std::string reason;        // "group 'hidden': match h.*.weight", "name rule: embedding (wte)", "ndim is 1"
  std::string decay_reason;  // why there is no weight decay: "no_decay bias"; empty if there is, or never was
  double scale = 1;          // the factor on lr that the recipe takes from the shape (Muon's adjust_lr_fn)
};

struct Routes {
  std::vector<RouteGroup> groups;  // only those that have parameters
  std::vector<Route> parameters;   // as given
  std::vector<std::string> notes;  // of the config and of this model: what has no effect
};

/// Sends each parameter of a model to a group of the config.
class Router {
 public:
  static Result<Router> create(Config config);

  /// A parameter that two groups match or none may take, a group or pattern that matches no parameter and a parameter
  /// of a shape that its optimizer does not take are errors.
  Result<Routes> route(const std::vector<RoutedParameter>& parameters) const;
  /// The same, but every error.
  Routes route(const std::vector<RoutedParameter>& parameters, std::vector<Status>& errors) const;

  const Config& config() const { return config_; }

 private:
  explicit Router(Config config) : config_(std::move(config)) {}
  Config config_;
};

}  // namespace stepfuse::runtime
