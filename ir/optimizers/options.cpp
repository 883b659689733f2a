// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/optimizers/options.h"

#include <utility>

namespace stepfuse::ir {

OptionInfo number_option(std::string_view name, std::string_view value, const Interval& range,
                         std::string_view description, std::string_view source) {
  return {name, OptionKind::Number, value, range, {}, {}, description, source};
}

OptionInfo integer_option(std::string_view name, std::string_view value, const Interval& range,
                          std::string_view description, std::string_view source) {
  return {name, OptionKind::Integer, value, range, {}, {}, description, source};
}

OptionInfo flag_option(std::string_view name, std::string_view value, std::string_view description,
                       std::string_view source) {
  return {name, OptionKind::Bool, value, {}, {}, {}, description, source};
}

OptionInfo choice_option(std::string_view name, std::string_view value, std::vector<std::string_view> choices,
                         std::string_view description, std::string_view source) {
  return {name, OptionKind::Choice, value, {}, std::move(choices), {}, description, source};
}

OptionInfo list_option(std::string_view name, std::string_view description, std::string_view source) {
  return {name, OptionKind::List, "", kFinite, {}, {}, description, source};
}

OptionInfo betas_option(std::string_view value, std::string_view description, std::string_view source) {
  return {"betas", OptionKind::Numbers, value, kUnit, {}, {"beta1", "beta2"}, description, source};
}

OptionInfo also_called(OptionInfo option, std::vector<std::string_view> aliases) {
  option.aliases = std::move(aliases);
  return option;
}

Outcome no_cross_checks(const OptionValues&) { return {}; }

}  // namespace stepfuse::ir
