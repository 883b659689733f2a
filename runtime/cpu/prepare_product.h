// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/explain.h"
#include "compiler/plan.h"
#include "runtime/cpu/gemm.h"

#include <memory>
#include <string>

namespace stepfuse::runtime {

/// Chooses who multiplies: in strict our fma chain, else the library for the element type, else the fma chain again.
/// The choice and its reason go into the notes under `label`, the name of the result.
Result<std::unique_ptr<Gemm>> choose_gemm(const GemmShape& shape, const std::string& label,
                                          const compiler::StepPlan& plan, compiler::BackendNotes& notes);

}  // namespace stepfuse::runtime
