// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/layout.h"
#include "runtime/optimizer.h"

#include <string>
#include <vector>

namespace stepfuse::runtime {

/// Elements of the parameter; negative extents and products beyond 2^62 bytes are refused.
Result<int64_t> checked_elements(const NewParameter& parameter);

/// Strides of the rule's inputs, by Graph::inputs(), checked and normalised; no list when every tensor is dense.
Result<std::vector<compiler::Strides>> checked_layouts(const NewParameter& parameter, const ir::Graph& rule);

/// The input as a message shows it: "parameter 'w'", "the gradient of 'w'", "state 'exp_avg' of 'w'".
std::string tensor_label(const std::string& parameter, const ir::Input& input);

/// The pointers of `memory` by the rule's inputs, null for scalars. Checks that the states are those that the caller
/// must bring: all of them when they are the caller's, else none.
Outcome sort_pointers(const compiler::PlannedParameter& parameter, bool caller_states, const MemoryBinding& memory,
                      std::vector<void*>& pointers);

}  // namespace stepfuse::runtime
