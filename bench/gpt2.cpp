// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/gpt2.h"

#include "stepfuse/stepfuse.hpp"

#include <array>

namespace stepfuse::bench {

std::vector<Tensor> gpt2_small() {
  std::vector<Tensor> tensors = {{"wte.weight", {50257, 768}, false}, {"wpe.weight", {1024, 768}, false}};
  for (int layer = 0; layer < 12; ++layer) {
    const std::string h = "h." + std::to_string(layer) + ".";
    for (const char* norm : {"ln_1", "ln_2"}) {
      tensors.push_back({h + norm + ".weight", {768}, false});
      tensors.push_back({h + norm + ".bias", {768}, false});
    }
    const std::vector<std::pair<std::string, std::array<int64_t, 2>>> products = {{"attn.c_attn", {768, 2304}},
                                                                                  {"attn.c_proj", {768, 768}},
                                                                                  {"mlp.c_fc", {768, 3072}},
                                                                                  {"mlp.c_proj", {3072, 768}}};
    for (const auto& [name, shape] : products) {
      tensors.push_back({h + name + ".weight", {shape[0], shape[1]}, true});
      tensors.push_back({h + name + ".bias", {shape[1]}, false});
    }
  }
  tensors.push_back({"ln_f.weight", {768}, false});
  tensors.push_back({"ln_f.bias", {768}, false});
  return tensors;
}

void add_gpt2_small(Optimizer& optimizer) {
  const GroupId muon = optimizer.add_group("muon"), adamw = optimizer.add_group("adamw");
  for (const Tensor& tensor : gpt2_small())
    optimizer.add_parameter(tensor.muon ? muon : adamw, tensor.name, tensor.shape);
}

}  // namespace stepfuse::bench
