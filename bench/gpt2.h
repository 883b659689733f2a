// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stepfuse {
class Optimizer;
}

namespace stepfuse::bench {

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  bool muon;
};

/// The parameter list of GPT-2 small, as in examples/manifests/gpt2-124m.toml: Muon on its 48 hidden matrices, AdamW on
/// the other 100 tensors.
std::vector<Tensor> gpt2_small();

/// Adds them all.
void add_gpt2_small(Optimizer& optimizer);

}  // namespace stepfuse::bench
