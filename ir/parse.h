// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <string_view>

namespace stepfuse::ir {

/// Reads the text form (docs/ir.md) and verifies the graph. Errors are InvalidData, `file:line:column: what; expected
/// ...`.
Result<Graph> parse(std::string_view text, std::string_view file_name = "<input>");

}  // namespace stepfuse::ir
