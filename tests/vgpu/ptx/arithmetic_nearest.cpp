// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/arithmetic_lanes.h"

namespace stepfuse::vgpu {
namespace {

#if defined(__x86_64__)
// Where the processor has them, fma and wider vectors: without, each fma is a call.
template <class T>
[[gnu::target("avx2,fma")]] void compute_wide(Arithmetic op, const T* a, const T* b, const T* c, T* r) {
  compute_lanes(op, a, b, c, r);
}

bool has_wide() {
  static const bool found = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return found;
}
#endif

}  // namespace

template <class T>
void compute_nearest(Arithmetic op, const T* a, const T* b, const T* c, T* r) {
#if defined(__x86_64__)
  if (has_wide()) return compute_wide(op, a, b, c, r);
#endif
  compute_lanes(op, a, b, c, r);
}

template void compute_nearest<float>(Arithmetic, const float*, const float*, const float*, float*);
template void compute_nearest<double>(Arithmetic, const double*, const double*, const double*, double*);

}  // namespace stepfuse::vgpu
