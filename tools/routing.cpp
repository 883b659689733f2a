// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/routing.h"

#include "ir/parse.h"
#include "ir/print.h"
#include "tools/option_values.h"
#include "tools/text_file.h"

#include <algorithm>
#include <array>

namespace stepfuse::tools {

namespace {

constexpr std::array<double, 3> kQuintic{3.4445, -4.775, 2.0315};

bool is_ir(const std::string& recipe) { return recipe == "-" || recipe.ends_with(".sfir"); }

/// IR text is parsed here, where its name is known, and handed on in canonical form.
Result<RoutedRule> make_rule(const std::string& recipe, const ir::OptionList& options) {
  RoutedRule routed{recipe, options, {}};
  if (is_ir(recipe)) {
    STEPFUSE_ASSIGN(const std::string text, read_text(recipe));
    STEPFUSE_ASSIGN(const ir::Graph graph, ir::parse(text, recipe == "-" ? "<stdin>" : recipe));
    routed.recipe = ir::print(graph);
  }
  STEPFUSE_ASSIGN(routed.rule, runtime::Rule::create(routed.recipe, options));
  return routed;
}

/// --recipe: one group that takes everything.
Result<RoutedRule> read_recipe(const Arguments& arguments) {
  if (arguments.has("config"))
    return with_hint(fail(StatusCode::InvalidArgument, "--recipe and --config exclude each other"),
                     "--recipe gives every parameter one rule; a config routes them");
  STEPFUSE_ASSIGN(const ir::OptionList options, read_sets(arguments));
  for (const auto& [key, value] : options)
    if (const size_t dot = key.find('.'); dot != std::string::npos)
      return with_hint(
          fail(StatusCode::InvalidArgument, "--set {}={}: there is no group '{}'", key, value, key.substr(0, dot)),
          fmt::format("with --recipe there is one group: --set {}={}", key.substr(dot + 1), value));
  return make_rule(arguments.get("recipe"), options);
}

}  // namespace

Result<runtime::Config> read_config(const Arguments& arguments) {
  STEPFUSE_ASSIGN(const ir::OptionList pairs, read_sets(arguments));
  return arguments.has("config") ? runtime::load_config(arguments.get("config"), pairs)
                                 : runtime::config_from_pairs(pairs);
}

Result<Routing> Routing::create(const Arguments& arguments) {
  STEPFUSE_TRY(check_preset(arguments));
  Routing routing;
  if (arguments.has("recipe")) {
    STEPFUSE_ASSIGN(routing.chosen_, read_recipe(arguments));
    return routing;
  }
  STEPFUSE_ASSIGN(runtime::Config config, read_config(arguments));
  STEPFUSE_ASSIGN(routing.router_, runtime::Router::create(std::move(config)));
  return routing;
}

Result<RoutedModel> Routing::route(const std::vector<runtime::RoutedParameter>& parameters) const {
  if (chosen_) return RoutedModel{{*chosen_}, std::vector<uint32_t>(parameters.size(), 0), {}};
  STEPFUSE_ASSIGN(runtime::Routes routes, router_->route(parameters));
  RoutedModel model;
  for (const runtime::RouteGroup& group : routes.groups) {
    STEPFUSE_ASSIGN(RoutedRule rule, make_rule(group.optimizer, group.options));
    model.rules.push_back(std::move(rule));
  }
  for (const runtime::Route& route : routes.parameters) model.rule_of.push_back(route.group);
  model.notes = std::move(routes.notes);
  return model;
}

const std::vector<runtime::SettingSource>& Routing::settings() const {
  static const std::vector<runtime::SettingSource> kNone;
  return router_ ? router_->config().settings : kNone;
}

std::string remark_on(const ir::Recipe& recipe, const ir::OptionValues& values) {
  if (recipe.name != "muon") return {};
  const std::array<double, 3> given{values.number("ns_a"), values.number("ns_b"), values.number("ns_c")};
  if (given != kQuintic) return {};
  return "with the quintic coefficients (3.4445, -4.775, 2.0315) the singular values of Newton-Schulz output lie in "
         "about "
         "[0.68, 1.21], not at 1; (2, -1.5, 0.5) with 12 steps converges to 1";
}

std::string remark_on(const RoutedRule& rule) {
  const ir::Recipe* recipe = rule.rule.recipe();
  if (recipe == nullptr) return {};
  const auto values = ir::parse_options(recipe->name, recipe->options(), rule.options);
  return values ? remark_on(*recipe, *values) : std::string();
}

}  // namespace stepfuse::tools
