// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/gpt2.h"
#include "bench/gpu/gpu.h"

#include <string>
#include <vector>

namespace stepfuse::gpu_check {

struct ModelOptions {
  ElementType dtype = ElementType::F32;
  std::vector<std::string> disabled_passes;
};

/// An optimizer on the device with memory for its parameters and gradients, prepared and bound.
class Model {
 public:
  Model(const Gpu& gpu, const std::vector<bench::Tensor>& tensors, const ModelOptions& options = {});

  void step() { optimizer_.step(gpu_.stream()); }
  const Optimizer& optimizer() const { return optimizer_; }
  int64_t elements() const { return elements_; }

 private:
  const Gpu& gpu_;
  Optimizer optimizer_;
  Buffer parameters_, gradients_;
  int64_t elements_ = 0;
};

/// `count` tensors of one shape, by AdamW or Muon.
std::vector<bench::Tensor> equal_tensors(int64_t count, const std::vector<int64_t>& shape, bool muon);
/// GPT-2 small's 148 tensors; short: those of a model with one layer, 48 wide.
std::vector<bench::Tensor> language_model(bool is_short);
std::vector<bench::Tensor> muon_part(std::vector<bench::Tensor> tensors);

}  // namespace stepfuse::gpu_check
