// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Takes the division of a matrix by its norm out of memory: when only products read u / d, they read u and get 1/d in
/// alpha and beta. Saves writing and reading the matrix once. For a single matrix: in a batch each has its own norm,
/// and the fused kernel's second phase scales it while it is in cache. Default mode only. Bound: one more rounding of d
/// per factor; the norm must lie in 1e-18 .. 1e18, since the product of the undivided matrices is formed in f32.
bool fold_norm(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
