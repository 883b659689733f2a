// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Marks products whose result equals its transpose: X X^T, and products of equal symmetric matrices. A library may
/// then compute one triangle and mirror it. Default mode only: strict promises each element's own chain.
bool mark_symmetric(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
