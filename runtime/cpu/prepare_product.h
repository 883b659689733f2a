// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cpu/prepared.h"

namespace stepfuse::runtime {

struct ProductRequest {
  const compiler::GroupPlan& group;
  ir::ValueId node;
  const compiler::StepPlan& plan;  // mode and target
  compiler::BackendNotes& notes;
};

/// Chooses who multiplies: in strict our fma chain, else the library for the element type, else the fma chain again.
/// The choice and its reason go into the notes. Factors are filled in by the caller.
Result<PreparedProduct> prepare_product(const ProductRequest& request);

}  // namespace stepfuse::runtime
