// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// Turns scale-and-add around a product into its alpha and beta: b A + c (A A) becomes one product with alpha c, beta b
/// and C = A. Needs that nobody else reads the product. Changes rounding (one instead of three), so default mode only.
bool absorb_scale(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
