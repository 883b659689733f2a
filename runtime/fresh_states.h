// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan.h"
#include "runtime/executor.h"
#include "runtime/strided.h"

#include <span>
#include <vector>

namespace stepfuse::runtime {

/// The states of one parameter in pieces of about a megabyte, which may be cleared in any order.
void append_state_pieces(const compiler::PlannedParameter& parameter, const MemberBinding& binding,
                         std::vector<StridedTensor>& pieces);

/// The pieces of all active parameters that ask for it.
std::vector<StridedTensor> states_to_clear(const std::vector<compiler::PlannedParameter>& parameters,
                                           std::span<const MemberBinding> bindings);

}  // namespace stepfuse::runtime
