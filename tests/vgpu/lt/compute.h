// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The arithmetic of a product: products and sums in f32 (f64 for f64), alpha and beta applied in the same type, one
/// rounding to D. Which order the sums have is the algorithm's.

#include "tests/vgpu/lt/problem.h"

#include <cstdint>
#include <vector>

namespace stepfuse::vgpu::lt {

/// Part of K that is added up from zero, one term after the other.
struct Segment {
  int64_t begin, end;
};

/// The sums of the segments are added in their order.
using SumOrder = std::vector<Segment>;

/// Host addresses of the first elements of one product of a batch. `c` is null if C is not read.
struct Operands {
  const void* a;
  const void* b;
  const void* c;
  void* d;
};

/// alpha and beta hold f32 values exactly when the scale type is f32.
void compute_product(const Problem& problem, const Operands& operands, double alpha, double beta,
                     const SumOrder& order);

}  // namespace stepfuse::vgpu::lt
