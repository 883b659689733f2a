// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Moves transposes of tall matrices towards the outputs, where two of them meet and vanish: into a product's flags,
/// past elementwise ops, and through a product as (A B)^T = B^T A^T. The result is computed in the orientation in which
/// the parameter is stored, without a transposed copy. Exact: each element keeps its chain of operations.
bool orient_transposes(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
