// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"
#include "runtime/cache/inspect.h"
#include "runtime/context.h"
#include "tools/cli_options.h"

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace stepfuse::tools {

/// What the cache says to one parameter shape of a model.
struct ShapeAnswer {
  std::string parameter;  // the first of its kind
  int64_t members = 0;
  std::string rule, shape;
  bool hit = false;
  std::optional<runtime::NearestEntry> nearest;  // of a miss, when there is any entry
  std::vector<std::string> kernel_problems;      // of a shape that is known: kernels that must be compiled, and why
  std::string why;                               // of a miss that no field explains: damage, or the setting
};

/// Plans the model of --recipe, --shape and so on as explain does, and looks each shape up. Compiles nothing.
Result<std::vector<ShapeAnswer>> explain_misses(const Arguments& arguments);

std::string misses_text(const std::vector<ShapeAnswer>& answers);
nlohmann::ordered_json misses_json(const std::vector<ShapeAnswer>& answers);

}  // namespace stepfuse::tools
