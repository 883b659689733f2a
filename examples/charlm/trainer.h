// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.h"
#include "text.h"

#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace charlm {

/// Two trainings that differ in nothing but the passes of the compiler.
struct Variant {
  std::string name;
  std::vector<std::string> disabled_passes;
};
Variant fused_variant();
Variant unfused_variant();

/// What one training left behind.
struct TrainingResult {
  std::vector<double> losses;  ///< of every step
  std::vector<float> values;   ///< of every parameter at the end
  double held_out_loss = 0.0;
  double seconds = 0.0;            ///< of all steps
  double optimizer_seconds = 0.0;  ///< of that, inside Optimizer::step()
  stepfuse::PlanSummary summary{};
};

/// Trains a new model from the options' seed, reporting progress on standard output. Throws Failure if the loss stops
/// being a number, and stepfuse::Error from Stepfuse.
TrainingResult train(const Corpus& corpus, const Options& options, const Variant& variant);

}  // namespace charlm
