// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace stepfuse::bench {

/// The tensors of one AdamW parameter, f32.
struct AdamTensors {
  float* param;
  const float* grad;
  float* exp_avg;
  float* exp_avg_sq;
};

/// AdamW's scalars of one step.
struct AdamScalars {
  float decay;  // 1 - lr * weight_decay
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float step_size;   // -lr / (1 - beta1^t)
  float correction;  // sqrt(1 - beta2^t)
  float eps;
};
AdamScalars adam_scalars(double lr, double weight_decay, double beta1, double beta2, double eps, int64_t step);

/// Elements begin <= i < end; end - begin is a multiple of 16.
using AdamLoop = void (*)(const AdamTensors& tensors, const AdamScalars& scalars, int64_t begin, int64_t end);

/// AdamW in one pass, written by hand for AVX-512 or AVX2, whichever this host has.
AdamLoop hand_adamw();
/// The memory traffic of AdamW and nothing else: reads four streams and writes three of them in place, unchanged.
AdamLoop bandwidth_probe();

}  // namespace stepfuse::bench
