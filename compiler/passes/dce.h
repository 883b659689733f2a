// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Drops what no output depends on.
bool drop_dead(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
