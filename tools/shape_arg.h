// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/status.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace stepfuse::tools {

/// `count` parameters of one shape, as in --shape 48@768x3072.
struct ShapeArg {
  int64_t count = 1;
  std::vector<int64_t> shape;
};

Result<ShapeArg> parse_shape(std::string_view text);

/// Elements of a shape; nothing if there are more than memory can address.
Outcome check_extents(std::string_view subject, const std::vector<int64_t>& shape);

}  // namespace stepfuse::tools
