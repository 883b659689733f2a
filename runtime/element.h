// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/type.h"

#include <cstdint>

namespace stepfuse::runtime {

/// Stores a number, rounded to nearest even, as element `index` of a dense tensor.
void store_element(void* data, ir::DType dtype, int64_t index, double value);
double load_element(const void* data, ir::DType dtype, int64_t index);

}  // namespace stepfuse::runtime
