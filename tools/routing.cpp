// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/routing.h"

#include "ir/parse.h"
#include "ir/print.h"
#include "tools/default_route.h"
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

}  // namespace

Result<Routing> Routing::create(const Arguments& arguments) {
  STEPFUSE_TRY(check_preset(arguments));
  STEPFUSE_ASSIGN(const ir::OptionList options, read_sets(arguments));
  Routing routing;
  routing.chosen_ = arguments.has("recipe");
  if (!routing.chosen_ && !options.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "--set {}=... needs --recipe", options.front().first),
                     "without --recipe two recipes share the parameters, each with its own options");
  std::vector<std::string> recipes{"muon", "adamw"};
  if (routing.chosen_) recipes = {arguments.get("recipe")};
  for (const std::string& recipe : recipes) {
    STEPFUSE_ASSIGN(RoutedRule rule, make_rule(recipe, options));
    routing.rules_.push_back(std::move(rule));
  }
  return routing;
}

size_t Routing::rule_of(const std::string& name, const std::vector<int64_t>& shape) const {
  if (chosen_) return 0;
  const std::string_view recipe = default_recipe(name, shape);
  const auto it =
      std::find_if(rules_.begin(), rules_.end(), [&](const RoutedRule& rule) { return rule.recipe == recipe; });
  STEPFUSE_CHECK(it != rules_.end(), "the default route names an unknown recipe {}", recipe);
  return static_cast<size_t>(it - rules_.begin());
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
