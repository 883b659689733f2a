// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model.h"
#include "text.h"
#include "trainer.h"

#include <chrono>
#include <cstddef>
#include <string>

namespace charlm {

/// What the progress line says after a step.
struct ProgressState {
  int step;
  double loss;
  double characters_per_second;
  double optimizer_share;  ///< of the time so far
};

/// One line, redrawn in place, on a terminal; elsewhere about ten lines over a training.
class Progress {
 public:
  Progress(std::string name, int steps);
  /// Leaves the line, so that what comes next, a table or an error, starts on its own.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(const ProgressState& state);

 private:
  bool due(int step);

  std::string name_;
  int steps_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_drawn_;
};

/// The text, the model's size and how it is divided between the optimizers, and the baseline.
/// Returns the number of parameters.
std::size_t print_setup(const Corpus& corpus, int context, double bigram);

/// One training by itself, or two side by side.
void print_table(const TrainingResult& fused, const TrainingResult* unfused, std::size_t parameters);

/// How far two trainings agree.
struct Agreement {
  bool identical;             ///< all losses and all final values, bit for bit
  std::size_t first_step;     ///< the first step whose losses differ, counted from 1; 0 if none does
  double largest_difference;  ///< between losses of the same step
};
Agreement compare(const TrainingResult& a, const TrainingResult& b);

void print_agreement(const Agreement& agreement, std::size_t steps, stepfuse::Numerics numerics);

/// Prints how the held-out loss stands to the baseline, and returns whether it is below.
bool print_verdict(double held_out_loss, double bigram);

}  // namespace charlm
