// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/op.h"
#include "ir/type.h"
#include "runtime/element.h"

#include <cstdint>

namespace stepfuse::runtime {

/// Adds the partials of one result pairwise by index (0+1, 2+3, ..., an odd last one moves up), in f32 or f64 as `math`
/// says, takes the square root for Norm, and for Amax and Any keeps the largest. Overwrites the partials.
double finish_reduction(ir::Op op, ir::DType math, double* partials, int64_t count);

}  // namespace stepfuse::runtime
