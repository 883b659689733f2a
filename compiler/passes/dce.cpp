// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/dce.h"

namespace stepfuse::compiler {

bool drop_dead(ir::Graph& graph, const PassContext&) {
  return ir::rewrite(graph, [](ir::Graph&, ir::ValueId, std::span<const ir::ValueId>) { return std::nullopt; });
}

}  // namespace stepfuse::compiler
