// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"

#include <vector>

namespace stepfuse::test {

/// Every kernel of every recipe in one mode, as plans for CUDA have them, each once: element types f32, bf16, f16 and f64 in the usual mixtures,
/// options that change the rule, wide, tall and many matrices.
std::vector<codegen::KernelSpec> recipe_kernels(ir::Mode mode);

}  // namespace stepfuse::test
