// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/ptx/arithmetic_lanes.h"

#include <cfenv>

namespace stepfuse::vgpu {
namespace {

class RoundingMode {
 public:
  explicit RoundingMode(Rounding rounding) : saved_(std::fegetround()) {
    std::fesetround(rounding == Rounding::Zero ? FE_TOWARDZERO : rounding == Rounding::Down ? FE_DOWNWARD : FE_UPWARD);
  }
  ~RoundingMode() { std::fesetround(saved_); }
  RoundingMode(const RoundingMode&) = delete;
  RoundingMode& operator=(const RoundingMode&) = delete;

 private:
  int saved_;
};

// A call of its own, so that no operation moves across the change of the mode.
template <class T>
[[gnu::noinline]] void compute_in_mode(Arithmetic op, const T* a, const T* b, const T* c, T* r) {
  compute_lanes(op, a, b, c, r);
}

}  // namespace

template <class T>
void compute_directed(Arithmetic op, Rounding rounding, const T* a, const T* b, const T* c, T* r) {
  const RoundingMode mode(rounding);
  compute_in_mode(op, a, b, c, r);
}

template void compute_directed<float>(Arithmetic, Rounding, const float*, const float*, const float*, float*);
template void compute_directed<double>(Arithmetic, Rounding, const double*, const double*, const double*, double*);

}  // namespace stepfuse::vgpu
