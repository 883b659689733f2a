// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Runs a Newton-Schulz iteration of two steps or more on its Gram matrix where that multiplies less: every step is a
/// polynomial of R = X X^T times X, so the polynomials are multiplied into one, Q, and X takes part again only where
/// rounding would otherwise outgrow the result (a restart) and at the end, X_T = Q X. After the Gram Newton-Schulz of
/// Dao-AILab: a I enters Q alone, and only in the first step after a start. Default mode only. Bound: for Gaussian
/// matrices what docs/performance.md says, 1 % in f16, 5e-5 in f32; bf16, for long matrices only, twice the standard
/// form's own error.
bool choose_ns_form(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
