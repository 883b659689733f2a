// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pass.h"

namespace stepfuse::compiler {

/// On a target without matrix units for bf16, runs products that are declared in bf16 in f32: there bf16 costs
/// conversions and gains nothing. Intermediates only; outputs keep their type. Default mode only (intermediates wider
/// than declared).
bool widen_products(ir::Graph& graph, const PassContext& context);

}  // namespace stepfuse::compiler
