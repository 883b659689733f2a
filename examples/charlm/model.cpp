// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <random>

namespace charlm {
namespace {

constexpr std::size_t kAlignment = 64;  // bytes
constexpr int kExpansion = 4;           // the MLP's hidden width, in widths
constexpr float kEmbeddingSigma = 0.05F;

std::size_t product(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

Normalised make_normalised(std::size_t rows, int width) {
  const std::size_t size = rows * static_cast<std::size_t>(width);
  return {std::vector<float>(size), std::vector<float>(size), std::vector<float>(rows)};
}

}  // namespace

FloatBuffer::FloatBuffer(std::size_t size)
    : data_(static_cast<float*>(::operator new(size * sizeof(float), std::align_val_t{kAlignment}))), size_(size) {
  std::fill(data(), data() + size_, 0.0F);
}

void FloatBuffer::Free::operator()(float* data) const noexcept {
  ::operator delete(data, std::align_val_t{kAlignment});
}

Workspace::Workspace(const ModelShape& shape, int sequences) {
  const std::size_t rows = product(sequences, shape.context);
  const std::size_t width = rows * static_cast<std::size_t>(shape.width);
  const std::size_t hidden = width * static_cast<std::size_t>(kExpansion);
  const std::size_t scores = product(shape.context, shape.context);
  for (int i = 0; i < shape.layers; ++i) {
    Layer layer;
    layer.norm1 = make_normalised(rows, shape.width);
    layer.qkv.resize(3 * width);
    layer.weights.resize(product(sequences, shape.heads) * scores);
    layer.attended.resize(width);
    layer.norm2 = make_normalised(rows, shape.width);
    layer.derivative.resize(hidden);
    layer.activated.resize(hidden);
    layers_.push_back(std::move(layer));
  }
  stream_.resize(width);
  final_norm_ = make_normalised(rows, shape.width);
  logits_.resize(rows * static_cast<std::size_t>(shape.vocabulary));
  dwidth_.resize(width);
  dqkv_.resize(3 * width);
  dhidden_.resize(hidden);
  dscores_.resize(scores);
}

Model::Model(const ModelShape& shape, std::uint64_t seed) : shape_(shape), values_(0) {
  token_embedding_ = add("embedding.token", {shape.vocabulary, shape.width}, Role::Other);
  position_embedding_ = add("embedding.position", {shape.context, shape.width}, Role::Other);
  for (int i = 0; i < shape.layers; ++i) {
    const std::string prefix = "layer" + std::to_string(i) + ".";
    Layer layer{};
    layer.norm1 = add_norm(prefix + "norm1");
    layer.qkv = add_linear(prefix + "qkv", 3 * shape.width, shape.width, Role::HiddenMatrix);
    layer.projection = add_linear(prefix + "projection", shape.width, shape.width, Role::HiddenMatrix);
    layer.norm2 = add_norm(prefix + "norm2");
    layer.expand = add_linear(prefix + "expand", kExpansion * shape.width, shape.width, Role::HiddenMatrix);
    layer.contract = add_linear(prefix + "contract", shape.width, kExpansion * shape.width, Role::HiddenMatrix);
    layers_.push_back(layer);
  }
  final_norm_ = add_norm("final_norm");
  head_ = add_linear("head", shape.vocabulary, shape.width, Role::Other);
  values_ = FloatBuffer(padded_size_);
  draw_values(seed);
}

std::size_t Model::add(const std::string& name, const std::vector<std::int64_t>& shape, Role role) {
  std::size_t size = 1;
  for (const std::int64_t extent : shape) size *= static_cast<std::size_t>(extent);
  const std::size_t offset = padded_size_;
  parameters_.push_back({name, shape, role, offset, size});
  constexpr std::size_t kLine = kAlignment / sizeof(float);
  padded_size_ += (size + kLine - 1) / kLine * kLine;
  return offset;
}

Model::Affine Model::add_linear(const std::string& name, int outputs, int inputs, Role role) {
  const std::size_t weight = add(name + ".weight", {outputs, inputs}, role);
  return {weight, add(name + ".bias", {outputs}, Role::Other)};
}

Model::Affine Model::add_norm(const std::string& name) {
  const std::size_t gain = add(name + ".gain", {shape_.width}, Role::Other);
  return {gain, add(name + ".bias", {shape_.width}, Role::Other)};
}

void Model::draw_values(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (const Parameter& p : parameters_) {
    float* values = value(p.offset);
    if (p.name.ends_with(".bias")) continue;
    if (p.name.ends_with(".gain")) {
      std::fill(values, values + p.size, 1.0F);
      continue;
    }
    const bool embedding = p.name.starts_with("embedding.");
    float sigma = embedding ? kEmbeddingSigma : 1.0F / std::sqrt(static_cast<float>(p.shape[1]));
    // The 2 * layers matrices that write into the residual stream start small, so that its variance stays near 1.
    const bool writes_stream = p.name.ends_with("projection.weight") || p.name.ends_with("contract.weight");
    if (writes_stream) sigma /= std::sqrt(2.0F * static_cast<float>(shape_.layers));
    for (std::size_t i = 0; i < p.size; ++i) values[i] = sigma * normal(random);
  }
}

std::size_t Model::count(Role role) const {
  std::size_t total = 0;
  for (const Parameter& p : parameters_) total += p.role == role ? p.size : 0;
  return total;
}

AttentionShape Model::attention_shape(int sequences) const {
  return {sequences, shape_.context, shape_.heads, shape_.width};
}

void Model::embed(const Batch& batch, float* stream) const {
  const auto width = static_cast<std::size_t>(shape_.width);
  for (int row = 0; row < batch.sequences * shape_.context; ++row) {
    const float* token = value(token_embedding_) + batch.inputs[row] * width;
    const float* position = value(position_embedding_) + product(row % shape_.context, shape_.width);
    float* out = stream + product(row, shape_.width);
    for (std::size_t i = 0; i < width; ++i) out[i] = token[i] + position[i];
  }
}

void Model::embed_backward(const Batch& batch, const float* dstream, float* gradients) const {
  const auto width = static_cast<std::size_t>(shape_.width);
  for (int row = 0; row < batch.sequences * shape_.context; ++row) {
    float* dtoken = gradients + token_embedding_ + batch.inputs[row] * width;
    float* dposition = gradients + position_embedding_ + product(row % shape_.context, shape_.width);
    const float* d = dstream + product(row, shape_.width);
    for (std::size_t i = 0; i < width; ++i) {
      dtoken[i] += d[i];
      dposition[i] += d[i];
    }
  }
}

void Model::layer_forward(const Layer& layer, const AttentionShape& attention, Workspace::Layer& saved,
                          float* stream) const {
  const int width = shape_.width;
  const int hidden = kExpansion * width;
  const int rows = attention.sequences * attention.context;
  norm_forward(rows, width, stream, value(layer.norm1.weight), value(layer.norm1.bias), saved.norm1);
  linear_forward({rows, width, 3 * width}, saved.norm1.output.data(), value(layer.qkv.weight), value(layer.qkv.bias),
                 Store::Replace, saved.qkv.data());
  attention_forward(attention, saved.qkv.data(), saved.weights.data(), saved.attended.data());
  linear_forward({rows, width, width}, saved.attended.data(), value(layer.projection.weight),
                 value(layer.projection.bias), Store::Add, stream);
  norm_forward(rows, width, stream, value(layer.norm2.weight), value(layer.norm2.bias), saved.norm2);
  linear_forward({rows, width, hidden}, saved.norm2.output.data(), value(layer.expand.weight), value(layer.expand.bias),
                 Store::Replace, saved.derivative.data());
  gelu_forward(product(rows, hidden), saved.derivative.data(), saved.activated.data());
  linear_forward({rows, hidden, width}, saved.activated.data(), value(layer.contract.weight),
                 value(layer.contract.bias), Store::Add, stream);
}

void Model::layer_backward(const Layer& layer, const AttentionShape& attention, Workspace::Layer& saved,
                           Workspace& work, float* gradients) const {
  const int width = shape_.width;
  const int hidden = kExpansion * width;
  const int rows = attention.sequences * attention.context;
  float* dstream = work.stream_.data();
  float* dwidth = work.dwidth_.data();
  linear_backward({rows, hidden, width}, saved.activated.data(), value(layer.contract.weight), dstream,
                  work.dhidden_.data(), gradients + layer.contract.weight, gradients + layer.contract.bias);
  gelu_backward(product(rows, hidden), saved.derivative.data(), work.dhidden_.data());
  linear_backward({rows, width, hidden}, saved.norm2.output.data(), value(layer.expand.weight), work.dhidden_.data(),
                  dwidth, gradients + layer.expand.weight, gradients + layer.expand.bias);
  norm_backward(rows, width, saved.norm2, value(layer.norm2.weight), dwidth, dstream, gradients + layer.norm2.weight,
                gradients + layer.norm2.bias);
  linear_backward({rows, width, width}, saved.attended.data(), value(layer.projection.weight), dstream, dwidth,
                  gradients + layer.projection.weight, gradients + layer.projection.bias);
  attention_backward(attention, saved.qkv.data(), saved.weights.data(), dwidth, work.dqkv_.data(),
                     work.dscores_.data());
  linear_backward({rows, width, 3 * width}, saved.norm1.output.data(), value(layer.qkv.weight), work.dqkv_.data(),
                  dwidth, gradients + layer.qkv.weight, gradients + layer.qkv.bias);
  norm_backward(rows, width, saved.norm1, value(layer.norm1.weight), dwidth, dstream, gradients + layer.norm1.weight,
                gradients + layer.norm1.bias);
}

double Model::forward(const Batch& batch, Workspace& work) const {
  const int rows = batch.sequences * shape_.context;
  embed(batch, work.stream_.data());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layer_forward(layers_[i], attention_shape(batch.sequences), work.layers_[i], work.stream_.data());
  }
  norm_forward(rows, shape_.width, work.stream_.data(), value(final_norm_.weight), value(final_norm_.bias),
               work.final_norm_);
  linear_forward({rows, shape_.width, shape_.vocabulary}, work.final_norm_.output.data(), value(head_.weight),
                 value(head_.bias), Store::Replace, work.logits_.data());
  return softmax_loss(rows, shape_.vocabulary, batch.targets, work.logits_.data());
}

void Model::backward(const Batch& batch, float scale, Workspace& work, float* gradients) const {
  const int rows = batch.sequences * shape_.context;
  softmax_loss_backward(rows, shape_.vocabulary, batch.targets, scale, work.logits_.data());
  linear_backward({rows, shape_.width, shape_.vocabulary}, work.final_norm_.output.data(), value(head_.weight),
                  work.logits_.data(), work.dwidth_.data(), gradients + head_.weight, gradients + head_.bias);
  std::fill(work.stream_.begin(), work.stream_.end(), 0.0F);
  norm_backward(rows, shape_.width, work.final_norm_, value(final_norm_.weight), work.dwidth_.data(),
                work.stream_.data(), gradients + final_norm_.weight, gradients + final_norm_.bias);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    layer_backward(layers_[i], attention_shape(batch.sequences), work.layers_[i], work, gradients);
  }
  embed_backward(batch, work.stream_.data(), gradients);
}

}  // namespace charlm
