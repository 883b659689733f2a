// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <string>
#include <vector>

namespace stepfuse::ir {

/// Everything that is wrong with a graph, with the names of the values; empty if it is sound.
std::vector<std::string> verify(const Graph& graph);

/// The same as an InvalidData error.
Outcome check(const Graph& graph);

}  // namespace stepfuse::ir
