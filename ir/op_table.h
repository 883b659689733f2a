// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace stepfuse::ir {

/// ops.def as a Markdown table; docs/ir.md holds exactly this text (a test compares).
std::string ops_markdown();

}  // namespace stepfuse::ir
