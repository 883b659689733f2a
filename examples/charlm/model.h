// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers.h"
#include "text.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace charlm {

/// A decoder-only transformer with normalisation in front of each layer, learned positions and a head of its own.
struct ModelShape {
  int vocabulary;
  int context;
  int width;
  int heads;
  int layers;
};

/// Which optimizer a parameter belongs to: Muon for the hidden matrices, AdamW for everything else.
enum class Role { HiddenMatrix, Other };

/// One tensor, at `offset` of the model's values; its gradient is at the same offset of a gradient buffer.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  Role role;
  std::size_t offset;
  std::size_t size;
};

/// Floats on a 64-byte boundary, zero at first.
class FloatBuffer {
 public:
  explicit FloatBuffer(std::size_t size);
  float* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(float* data) const noexcept;
  };
  std::unique_ptr<float[], Free> data_;
  std::size_t size_;
};

/// Sequences of `context` tokens and, for each token, the one that follows.
struct Batch {
  const Token* inputs;
  const Token* targets;
  int sequences;
};

/// What one thread keeps between its forward and its backward pass, for up to `sequences` sequences.
class Workspace {
 public:
  Workspace(const ModelShape& shape, int sequences);

 private:
  friend class Model;

  struct Layer {
    Normalised norm1;
    std::vector<float> qkv;
    std::vector<float> weights;
    std::vector<float> attended;
    Normalised norm2;
    std::vector<float> derivative;  // of GELU; its argument before
    std::vector<float> activated;
  };

  std::vector<Layer> layers_;
  std::vector<float> stream_;  // the residual stream, and its gradient in the backward pass
  Normalised final_norm_;
  std::vector<float> logits_;
  std::vector<float> dwidth_;  // gradients of activations, by their size
  std::vector<float> dqkv_;
  std::vector<float> dhidden_;
  std::vector<float> dscores_;
};

class Model {
 public:
  /// Draws the initial values from `seed`.
  Model(const ModelShape& shape, std::uint64_t seed);

  const ModelShape& shape() const noexcept { return shape_; }
  const std::vector<Parameter>& parameters() const noexcept { return parameters_; }
  /// All values, with padding between tensors so that each starts on a 64-byte boundary.
  FloatBuffer& values() noexcept { return values_; }
  const FloatBuffer& values() const noexcept { return values_; }
  /// The number of parameters, of one role or of both.
  std::size_t count(Role role) const;
  std::size_t count() const { return count(Role::HiddenMatrix) + count(Role::Other); }

  /// The loss summed over the batch's characters, in nats.
  double forward(const Batch& batch, Workspace& work) const;
  /// Adds the gradient of scale * loss to `gradients`; after forward() on the same batch and workspace.
  void backward(const Batch& batch, float scale, Workspace& work, float* gradients) const;

 private:
  /// A weight and its bias, or a gain and its bias: offsets into the values.
  struct Affine {
    std::size_t weight;
    std::size_t bias;
  };
  struct Layer {
    Affine norm1, qkv, projection, norm2, expand, contract;
  };

  std::size_t add(const std::string& name, const std::vector<std::int64_t>& shape, Role role);
  Affine add_linear(const std::string& name, int outputs, int inputs, Role role);
  Affine add_norm(const std::string& name);
  void draw_values(std::uint64_t seed);
  float* value(std::size_t offset) const { return values_.data() + offset; }

  void embed(const Batch& batch, float* stream) const;
  void embed_backward(const Batch& batch, const float* dstream, float* gradients) const;
  void layer_forward(const Layer& layer, const AttentionShape& attention, Workspace::Layer& saved, float* stream) const;
  void layer_backward(const Layer& layer, const AttentionShape& attention, Workspace::Layer& saved, Workspace& work,
                      float* gradients) const;
  AttentionShape attention_shape(int sequences) const;

  ModelShape shape_;
  std::vector<Parameter> parameters_;
  std::size_t padded_size_ = 0;
  std::size_t token_embedding_ = 0;
  std::size_t position_embedding_ = 0;
  std::vector<Layer> layers_;
  Affine final_norm_{};
  Affine head_{};
  FloatBuffer values_;
};

}  // namespace charlm
