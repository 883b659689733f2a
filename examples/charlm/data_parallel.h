// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model.h"
#include "text.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace charlm {

/// Runs work(0) ... work(workers - 1), each on a thread of its own (0 on the caller's), and waits for all.
void run_workers(int workers, const std::function<void(int)>& work);

/// Computes losses and gradients on several threads. Each takes a fixed share of every batch and a gradient buffer of
/// its own; buffers are summed in a fixed order, so that results depend on the number of threads but never on timing.
class DataParallel {
 public:
  /// Uses at most one thread per sequence. `threads` 0: one per core this process may use.
  DataParallel(const Model& model, int batch, int threads);

  int workers() const noexcept { return static_cast<int>(workspaces_.size()); }
  /// The mean loss of the batch in nats; afterwards gradients() holds the mean's gradient.
  double loss_and_gradients(const Batch& batch);
  /// The mean loss over the whole windows of the held-out part.
  double held_out_loss(const Corpus& corpus);
  /// Laid out as the model's values.
  const float* gradients() const noexcept { return gradients_.front().data(); }

 private:
  /// The sequences [first, first + count) of a batch that belong to a worker.
  struct Share {
    int first;
    int count;
  };
  Share share(int worker) const;
  void sum_gradients();

  const Model& model_;
  int batch_;
  std::vector<Workspace> workspaces_;
  std::vector<FloatBuffer> gradients_;
  std::vector<double> losses_;
};

}  // namespace charlm
