// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text.h"

#include <cstddef>
#include <vector>

namespace charlm {

// The layers of the model, forward and backward. All tensors are row-major f32; products go to BLAS. The functions run
// on the calling thread only. Every backward function overwrites gradients of activations, unless its comment says
// "adds", and always adds to gradients of parameters.

/// A fully connected layer: `rows` vectors of `inputs` to vectors of `outputs`; the weight is [outputs, inputs].
struct LinearShape {
  int rows;
  int inputs;
  int outputs;
};

/// Whether a result replaces what is there or is added to it, as into the residual stream.
enum class Store { Replace, Add };

void linear_forward(const LinearShape& shape, const float* x, const float* weight, const float* bias, Store store,
                    float* y);
void linear_backward(const LinearShape& shape, const float* x, const float* weight, const float* dy, float* dx,
                     float* dweight, float* dbias);

/// What layer normalisation keeps for its backward pass.
struct Normalised {
  std::vector<float> unit;           ///< [rows, width] with mean 0 and variance 1
  std::vector<float> output;         ///< unit * gain + bias
  std::vector<float> inverse_sigma;  ///< [rows]
};

void norm_forward(int rows, int width, const float* x, const float* gain, const float* bias, Normalised& out);
/// Adds to dx: the residual stream's gradient also flows past the layer.
void norm_backward(int rows, int width, const Normalised& saved, const float* gain, const float* dy, float* dx,
                   float* dgain, float* dbias);

/// GELU in its tanh form. `x` is replaced by the derivative at x, which is all the backward pass needs.
void gelu_forward(std::size_t count, float* x, float* y);
void gelu_backward(std::size_t count, const float* derivative, float* dy);

/// Causal attention of `heads` heads over sequences of `context` rows.
struct AttentionShape {
  int sequences;
  int context;
  int heads;
  int width;
};

/// qkv is [sequences * context, 3 * width] (queries, keys, values); weights is [sequences, heads, context, context].
void attention_forward(const AttentionShape& shape, const float* qkv, float* weights, float* out);
/// Overwrites `weights`.
void attention_backward(const AttentionShape& shape, const float* qkv, float* weights, const float* dout, float* dqkv,
                        float* scratch);

/// Turns logits [rows, vocabulary] into probabilities and returns the summed loss in nats.
double softmax_loss(int rows, int vocabulary, const Token* targets, float* logits);
/// Turns those probabilities into the gradient of scale * loss with respect to the logits.
void softmax_loss_backward(int rows, int vocabulary, const Token* targets, float scale, float* probabilities);

}  // namespace charlm
