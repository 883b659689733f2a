// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stepfuse::compiler {

/// Whether all tensors have the param's symbolic shape and nothing but elementwise ops joins them: then one plan serves
/// every extent, and a parameter may be seen as flat.
bool is_shape_free(const ir::Graph& rule);

/// The rule for one parameter: shape-free rules stay symbolic, in the others symbols become the parameter's extents.
/// The error says which shape the rule takes.
Result<ir::Graph> specialise(const ir::Graph& rule, const std::vector<int64_t>& shape);

/// A shape-free rule over these extents, at most ir::kMaxRank of them, in place of its own.
Result<ir::Graph> make_concrete(const ir::Graph& rule, const std::vector<int64_t>& extents);

/// Equal for rules that may share a plan: structure, types and constants, without names and default values.
std::string signature(const ir::Graph& rule);

}  // namespace stepfuse::compiler
