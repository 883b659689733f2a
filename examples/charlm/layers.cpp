// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "layers.h"

#include "fast_math.h"

#include <algorithm>
#include <cmath>

#include <cblas.h>

namespace charlm {
namespace {

constexpr float kNormEps = 1e-5F;
constexpr float kGeluScale = 0.7978845608F;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

std::size_t at(int row, int stride) { return static_cast<std::size_t>(row) * static_cast<std::size_t>(stride); }

}  // namespace

void linear_forward(const LinearShape& s, const float* x, const float* weight, const float* bias, Store store,
                    float* y) {
  for (int row = 0; row < s.rows; ++row) {
    float* out = y + at(row, s.outputs);
    if (store == Store::Replace) {
      std::copy(bias, bias + s.outputs, out);
    } else {
      for (int i = 0; i < s.outputs; ++i) out[i] += bias[i];
    }
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s.rows, s.outputs, s.inputs, 1.0F, x, s.inputs, weight, s.inputs,
              1.0F, y, s.outputs);
}

void linear_backward(const LinearShape& s, const float* x, const float* weight, const float* dy, float* dx,
                     float* dweight, float* dbias) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s.rows, s.inputs, s.outputs, 1.0F, dy, s.outputs, weight,
              s.inputs, 0.0F, dx, s.inputs);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, s.outputs, s.inputs, s.rows, 1.0F, dy, s.outputs, x, s.inputs,
              1.0F, dweight, s.inputs);
  for (int row = 0; row < s.rows; ++row) {
    for (int i = 0; i < s.outputs; ++i) dbias[i] += dy[at(row, s.outputs) + static_cast<std::size_t>(i)];
  }
}

void norm_forward(int rows, int width, const float* x, const float* gain, const float* bias, Normalised& out) {
  const auto n = static_cast<float>(width);
  for (int row = 0; row < rows; ++row) {
    const float* in = x + at(row, width);
    float* unit = out.unit.data() + at(row, width);
    float* y = out.output.data() + at(row, width);
    const float mean = lane_sum(width, [&](int i) { return in[i]; }) / n;
    const float variance = lane_sum(width, [&](int i) { return (in[i] - mean) * (in[i] - mean); }) / n;
    const float inverse_sigma = 1.0F / std::sqrt(variance + kNormEps);
    for (int i = 0; i < width; ++i) {
      unit[i] = (in[i] - mean) * inverse_sigma;
      y[i] = unit[i] * gain[i] + bias[i];
    }
    out.inverse_sigma[static_cast<std::size_t>(row)] = inverse_sigma;
  }
}

void norm_backward(int rows, int width, const Normalised& saved, const float* gain, const float* dy, float* dx,
                   float* dgain, float* dbias) {
  const auto n = static_cast<float>(width);
  for (int row = 0; row < rows; ++row) {
    const float* unit = saved.unit.data() + at(row, width);
    const float* dout = dy + at(row, width);
    float* din = dx + at(row, width);
    const float inverse_sigma = saved.inverse_sigma[static_cast<std::size_t>(row)];
    // The gradient of the unit vector loses its mean and its component along the unit vector.
    const float mean = lane_sum(width, [&](int i) { return dout[i] * gain[i]; }) / n;
    const float along = lane_sum(width, [&](int i) { return dout[i] * gain[i] * unit[i]; }) / n;
    for (int i = 0; i < width; ++i) {
      din[i] += (dout[i] * gain[i] - mean - unit[i] * along) * inverse_sigma;
      dgain[i] += dout[i] * unit[i];
      dbias[i] += dout[i];
    }
  }
}

void gelu_forward(std::size_t count, float* x, float* y) {
  for (std::size_t i = 0; i < count; ++i) {
    const float v = x[i];
    const float inner = kGeluScale * (v + kGeluCubic * v * v * v);
    const float decay = exp_minus(2.0F * std::abs(inner));
    const float tanh = std::copysign((1.0F - decay) / (1.0F + decay), inner);
    y[i] = 0.5F * v * (1.0F + tanh);
    const float inner_derivative = kGeluScale * (1.0F + 3.0F * kGeluCubic * v * v);
    x[i] = 0.5F * (1.0F + tanh) + 0.5F * v * (1.0F - tanh * tanh) * inner_derivative;
  }
}

void gelu_backward(std::size_t count, const float* derivative, float* dy) {
  for (std::size_t i = 0; i < count; ++i) dy[i] *= derivative[i];
}

double softmax_loss(int rows, int vocabulary, const Token* targets, float* logits) {
  double loss = 0.0;
  for (int row = 0; row < rows; ++row) {
    float* p = logits + at(row, vocabulary);
    const float target_logit = p[targets[row]];
    const float largest = *std::max_element(p, p + vocabulary);
    for (int i = 0; i < vocabulary; ++i) p[i] = exp_minus(largest - p[i]);
    const float sum = lane_sum(vocabulary, [&](int i) { return p[i]; });
    const float inverse = 1.0F / sum;
    for (int i = 0; i < vocabulary; ++i) p[i] *= inverse;
    loss += std::log(static_cast<double>(sum)) + static_cast<double>(largest) - static_cast<double>(target_logit);
  }
  return loss;
}

void softmax_loss_backward(int rows, int vocabulary, const Token* targets, float scale, float* probabilities) {
  for (int row = 0; row < rows; ++row) {
    float* p = probabilities + at(row, vocabulary);
    p[targets[row]] -= 1.0F;
    for (int i = 0; i < vocabulary; ++i) p[i] *= scale;
  }
}

}  // namespace charlm
