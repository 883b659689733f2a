// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Lets the last product write the parameter: with X' = B X + a X, p' = s X' + d p becomes one product
/// (B + a I) X s + d p in place, so X' is never stored and no kernel follows. Only where a step cannot be skipped (an
/// overflow check needs a separate, predicated store). Default mode only.
bool absorb_update(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
