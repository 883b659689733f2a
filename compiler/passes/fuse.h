// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Puts elementwise ops and reductions into clusters, each one launch: all that can run between the same products and
/// covers the same elements. Ops behind a reduction of their own cluster come in its next phase. An op whose only
/// readers come later moves there if that saves memory traffic.
bool fuse_elementwise(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
