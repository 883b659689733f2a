// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/vgpu/ptx/program.h"

#include <cstdint>

namespace stepfuse::vgpu {

/// What the processor does for us, 32 lanes at a time. Compiled apart: with the units the machine has, and with the
/// rounding mode as a variable.
enum class Arithmetic : uint8_t { Add, Sub, Mul, Div, Sqrt, Fma };

/// r = a op b (op c), rounded once to nearest.
template <class T>
void compute_nearest(Arithmetic op, const T* a, const T* b, const T* c, T* r);

/// The same in another rounding mode: Zero, Down or Up.
template <class T>
void compute_directed(Arithmetic op, Rounding rounding, const T* a, const T* b, const T* c, T* r);

extern template void compute_nearest<float>(Arithmetic, const float*, const float*, const float*, float*);
extern template void compute_nearest<double>(Arithmetic, const double*, const double*, const double*, double*);
extern template void compute_directed<float>(Arithmetic, Rounding, const float*, const float*, const float*, float*);
extern template void compute_directed<double>(Arithmetic, Rounding, const double*, const double*, const double*,
                                              double*);

}  // namespace stepfuse::vgpu
