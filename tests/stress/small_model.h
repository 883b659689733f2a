// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stepfuse/stepfuse.hpp"

#include <deque>
#include <vector>

namespace stepfuse::tests {

/// An optimizer over a handful of tensors of every kind of recipe: AdamW on equal and unequal shapes, SGD, Muon in
/// bf16 and in f32 on tall, wide and equal matrices, so that batched and single products both occur.
class SmallModel {
 public:
  explicit SmallModel(const Settings& settings);

  Optimizer& optimizer() { return optimizer_; }
  /// Another value for every hyperparameter that a schedule may change, then a step.
  void scheduled_step(int step);
  /// All parameters, one after the other.
  std::vector<float> parameters() const;

 private:
  void add(GroupId group, const std::vector<std::int64_t>& shape);

  struct Tensor {
    ParameterId id;
    std::vector<float> data, gradient;
  };
  Optimizer optimizer_;
  GroupId adamw_, sgd_, muon_bf16_, muon_f32_;
  std::deque<Tensor> tensors_;
};

}  // namespace stepfuse::tests
