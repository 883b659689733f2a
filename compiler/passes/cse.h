// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Orders the operands of commutative ops, so that a + b and b + a become one value; equal nodes merge as the graph is
/// rebuilt. Exact: NaN payloads carry no meaning.
bool merge_equal(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
