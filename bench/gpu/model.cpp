// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/model.h"

#include <algorithm>

namespace stepfuse::gpu_check {

namespace {

constexpr int64_t kAlignment = 256;

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

/// Each tensor begins at a multiple of 256 bytes, as a framework's allocator gives it.
int64_t padded(const bench::Tensor& tensor, int64_t width) {
  return (count_of(tensor.shape) * width + kAlignment - 1) / kAlignment * kAlignment;
}

stepfuse::Settings settings_of(const ModelOptions& options) {
  stepfuse::Settings settings;
  settings.target = "cuda";
  settings.disabled_passes = options.disabled_passes;
  return settings;
}

}  // namespace

Model::Model(const Gpu& gpu, const std::vector<bench::Tensor>& tensors, const ModelOptions& options)
    : gpu_(gpu), optimizer_(settings_of(options)) {
  const int64_t width = options.dtype == ElementType::F32 ? 4 : 2;
  const GroupId muon = optimizer_.add_group("muon"), adamw = optimizer_.add_group("adamw");
  std::vector<ParameterId> ids;
  int64_t bytes = 0;
  for (const bench::Tensor& tensor : tensors) {
    ids.push_back(optimizer_.add_parameter(tensor.muon ? muon : adamw, tensor.name, tensor.shape, options.dtype));
    bytes += padded(tensor, width);
    elements_ += count_of(tensor.shape);
  }
  optimizer_.prepare();
  parameters_ = Buffer(gpu, bytes);
  gradients_ = Buffer(gpu, bytes);
  gpu.fill(parameters_, options.dtype, 0.02);
  gpu.fill(gradients_, options.dtype, 1e-3);
  int64_t at = 0;
  for (size_t i = 0; i < tensors.size(); at += padded(tensors[i], width), ++i)
    optimizer_.bind(ids[i], parameters_.at(at), gradients_.at(at));
}

std::vector<bench::Tensor> equal_tensors(int64_t count, const std::vector<int64_t>& shape, bool muon) {
  std::vector<bench::Tensor> tensors;
  for (int64_t i = 0; i < count; ++i) tensors.push_back({fmt::format("t.{}", i), shape, muon});
  return tensors;
}

std::vector<bench::Tensor> language_model(bool is_short) {
  if (!is_short) return bench::gpt2_small();
  return {{"wte", {200, 48}, false}, {"ln", {48}, false}, {"attn", {48, 144}, true}, {"fc", {144, 48}, true}};
}

std::vector<bench::Tensor> muon_part(std::vector<bench::Tensor> tensors) {
  std::erase_if(tensors, [](const bench::Tensor& tensor) { return !tensor.muon; });
  return tensors;
}

}  // namespace stepfuse::gpu_check
