// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"
#include "ir/optimizers/recipe.h"
#include "ir/support/status.h"
#include "tools/cli_options.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::tools {

// Option values from text to type; nothing here opens a file.

Result<ir::Mode> read_mode(const Arguments& arguments);

/// "interp", "cpu", "x86-64-v3", "x86-64-v4", "cuda", or an architecture such as "sm_90". Whether this host can run it
/// is not asked.
Result<std::string> read_target(const Arguments& arguments);

/// Targets to compile for, by commas, each once. "interp", which compiles nothing, and "cuda", which needs a device,
/// are refused.
Result<std::vector<std::string>> read_targets(const Arguments& arguments);

Result<int64_t> read_count(const Arguments& arguments, std::string_view option, int64_t fallback, int64_t lo,
                           int64_t hi);

/// The value of `option`, one of `choices`, of which the first is the default. Values of `later` are refused as such.
Result<std::string> read_choice(const Arguments& arguments, std::string_view option,
                                std::vector<std::string_view> choices, std::vector<std::string_view> later);

/// Names of passes, from a repeated option whose values may be lists. `special` is a name that is legal besides.
Result<std::vector<std::string>> read_passes(const Arguments& arguments, std::string_view option,
                                             std::string_view special = {});

/// --set, in order; keys and values are the recipe's or the config's to judge.
Result<ir::OptionList> read_sets(const Arguments& arguments);

struct ElementTypes {
  std::optional<ir::DType> param, grad, state;
};
Result<ElementTypes> read_dtypes(const Arguments& arguments);

/// --preset: "torch" or an error.
Outcome check_preset(const Arguments& arguments);

/// Fails with the name of the first of `options` that is absent.
Outcome require(const Arguments& arguments, std::initializer_list<std::string_view> options);

}  // namespace stepfuse::tools
