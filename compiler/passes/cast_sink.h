// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Makes casts disappear into their neighbours: a cast of a value with no other reader becomes the value's own rounding
/// (an op computes in its math type and rounds once anyway); a widening cast in front of an op that widens by itself
/// goes; a narrowing after a widening from the same type goes. Exact in every mode.
bool sink_casts(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
