// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Folds scalar constants and removes what is exactly nothing: x * 1, x / 1, -(-x), a cast to its own type, a transpose
/// of a transpose, a select whose condition is known or whose arms are equal. Exact in every mode; x + 0 is kept, since
/// it turns -0 into +0.
bool simplify(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
