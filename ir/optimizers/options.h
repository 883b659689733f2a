// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/optimizers/recipe.h"

namespace stepfuse::ir {

/// Rows of option tables, for recipes and dialects. `source` is whose default and range it is.
OptionInfo number_option(std::string_view name, std::string_view value, const Interval& range,
                         std::string_view description, std::string_view source);
OptionInfo integer_option(std::string_view name, std::string_view value, const Interval& range,
                          std::string_view description, std::string_view source);
OptionInfo flag_option(std::string_view name, std::string_view value, std::string_view description,
                       std::string_view source);
OptionInfo choice_option(std::string_view name, std::string_view value, std::vector<std::string_view> choices,
                         std::string_view description, std::string_view source);
OptionInfo list_option(std::string_view name, std::string_view description, std::string_view source);
/// Two decay factors of averages, each of which is also an option by itself.
OptionInfo betas_option(std::string_view value, std::string_view description, std::string_view source);
/// Other names of the same option.
OptionInfo also_called(OptionInfo option, std::vector<std::string_view> aliases);

Outcome no_cross_checks(const OptionValues& values);

}  // namespace stepfuse::ir
