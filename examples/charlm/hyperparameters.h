// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model.h"

#include <stepfuse/stepfuse.hpp>

namespace charlm {

// Everything that was tuned, in one place.

/// 1.2 million parameters, nearly all in the hidden matrices.
inline ModelShape model_shape(int vocabulary, int context) { return {vocabulary, context, 128, 4, 6}; }

inline constexpr double kMuonLearningRate = 0.01;
inline constexpr double kAdamWLearningRate = 1e-2;
inline constexpr double kWarmupShare = 0.05;  ///< of all steps
inline constexpr double kFinalShare = 0.05;   ///< of the full learning rate, at the last step

/// The update of every matrix gets the size that AdamW's would have ("match_rms_adamw"), so that one learning rate fits
/// wide and tall ones. Newton-Schulz in f32: the fastest on processors without bf16 products.
inline stepfuse::Options muon_options() {
  return {{"momentum", "0.95"}, {"weight_decay", "0.01"}, {"adjust_lr_fn", "match_rms_adamw"}, {"ns_dtype", "f32"}};
}
inline stepfuse::Options adamw_options() { return {{"betas", "0.9,0.98"}, {"weight_decay", "0.01"}}; }

/// The compiler's passes that merge launches; a plan without them launches every operation of the recipes by itself.
inline constexpr const char* kFusingPasses[] = {"fuse", "batch", "horizontal"};

}  // namespace charlm
