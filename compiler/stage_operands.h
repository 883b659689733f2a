// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Puts a copy between a product and each input that it cannot read where it lies. Runs after the passes, which must
/// not look through the copies.
void stage_operands(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
