// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/arithmetic.h"

#include <cmath>

namespace stepfuse::vgpu {

/// The loops of both files of arithmetic. Internal to each, as the two are compiled with different options.
template <class T>
[[gnu::always_inline]] static inline void compute_lanes(Arithmetic op, const T* a, const T* b, const T* c, T* r) {
  switch (op) {
    case Arithmetic::Add:
      for (uint32_t i = 0; i < kLanes; ++i) r[i] = a[i] + b[i];
      break;
    case Arithmetic::Sub:
      for (uint32_t i = 0; i < kLanes; ++i) r[i] = a[i] - b[i];
      break;
    case Arithmetic::Mul:
      for (uint32_t i = 0; i < kLanes; ++i) r[i] = a[i] * b[i];
      break;
    case Arithmetic::Div:
      for (uint32_t i = 0; i < kLanes; ++i) r[i] = a[i] / b[i];
      break;
    case Arithmetic::Sqrt:
      for (uint32_t i = 0; i < kLanes; ++i) r[i] = std::sqrt(a[i]);
      break;
    case Arithmetic::Fma:
      for (uint32_t i = 0; i < kLanes; ++i) r[i] = std::fma(a[i], b[i], c[i]);
      break;
  }
}

}  // namespace stepfuse::vgpu
