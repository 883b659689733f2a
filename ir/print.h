// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/graph.h"

#include <string>

namespace stepfuse::ir {

inline constexpr std::string_view kTextVersion = "stepfuse-ir v1";

/// The graph as text (docs/ir.md): print(*parse(print(g))) == print(g).
std::string print(const Graph& graph);

/// "f32[768, N]"; "scalar" for scalars.
std::string type_text(const Graph& graph, const Type& type);

/// The shortest decimal that reads back as the same f64; "inf", "nan".
std::string number_text(double value);

}  // namespace stepfuse::ir
