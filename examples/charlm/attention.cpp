// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "fast_math.h"
#include "layers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <cblas.h>

namespace charlm {
namespace {

/// Where one head of one sequence lies in the packed tensors.
struct Head {
  std::size_t qkv;      // first query; keys and values follow at + width and + 2 * width
  std::size_t weights;  // [context, context]
  std::size_t out;      // first output
};

Head head_at(const AttentionShape& s, int sequence, int head) {
  const auto context = static_cast<std::size_t>(s.context);
  const auto width = static_cast<std::size_t>(s.width);
  const std::size_t row = static_cast<std::size_t>(sequence) * context;
  const auto column = static_cast<std::size_t>(head) * static_cast<std::size_t>(s.width / s.heads);
  const std::size_t index =
      static_cast<std::size_t>(sequence) * static_cast<std::size_t>(s.heads) + static_cast<std::size_t>(head);
  return {row * 3 * width + column, index * context * context, row * width + column};
}

float score_scale(const AttentionShape& s) {
  return 1.0F / std::sqrt(static_cast<float>(s.width) / static_cast<float>(s.heads));
}

/// Softmax of each row over itself and the rows before it; later ones get weight zero.
void causal_softmax(int context, float* scores) {
  for (int row = 0; row < context; ++row) {
    float* p = scores + static_cast<std::ptrdiff_t>(row) * context;
    const int visible = row + 1;
    const float largest = *std::max_element(p, p + visible);
    for (int i = 0; i < visible; ++i) p[i] = exp_minus(largest - p[i]);
    const float inverse = 1.0F / lane_sum(visible, [&](int i) { return p[i]; });
    for (int i = 0; i < visible; ++i) p[i] *= inverse;
    std::fill(p + visible, p + context, 0.0F);
  }
}

/// The gradient of the scores, from the softmax's result `weights` and its gradient; replaces `weights`. Hidden
/// positions have weight zero and so get gradient zero.
void softmax_backward(int context, float* weights, const float* dweights) {
  for (int row = 0; row < context; ++row) {
    float* p = weights + static_cast<std::ptrdiff_t>(row) * context;
    const float* dp = dweights + static_cast<std::ptrdiff_t>(row) * context;
    const float mean = lane_sum(row + 1, [&](int i) { return p[i] * dp[i]; });
    for (int i = 0; i < context; ++i) p[i] *= dp[i] - mean;
  }
}

}  // namespace

void attention_forward(const AttentionShape& s, const float* qkv, float* weights, float* out) {
  const int depth = s.width / s.heads;
  const int stride = 3 * s.width;
  for (int index = 0; index < s.sequences * s.heads; ++index) {
    const Head head = head_at(s, index / s.heads, index % s.heads);
    const float* query = qkv + head.qkv;
    const float* key = query + s.width;
    const float* value = key + s.width;
    float* p = weights + head.weights;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s.context, s.context, depth, score_scale(s), query, stride,
                key, stride, 0.0F, p, s.context);
    causal_softmax(s.context, p);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s.context, depth, s.context, 1.0F, p, s.context, value,
                stride, 0.0F, out + head.out, s.width);
  }
}

void attention_backward(const AttentionShape& s, const float* qkv, float* weights, const float* dout, float* dqkv,
                        float* scratch) {
  const int depth = s.width / s.heads;
  const int stride = 3 * s.width;
  const float scale = score_scale(s);
  for (int index = 0; index < s.sequences * s.heads; ++index) {
    const Head head = head_at(s, index / s.heads, index % s.heads);
    const float* query = qkv + head.qkv;
    const float* key = query + s.width;
    const float* value = key + s.width;
    float* dquery = dqkv + head.qkv;
    float* dkey = dquery + s.width;
    float* dvalue = dkey + s.width;
    float* p = weights + head.weights;
    const float* dy = dout + head.out;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, s.context, depth, s.context, 1.0F, p, s.context, dy, s.width,
                0.0F, dvalue, stride);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s.context, s.context, depth, 1.0F, dy, s.width, value, stride,
                0.0F, scratch, s.context);
    softmax_backward(s.context, p, scratch);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s.context, depth, s.context, scale, p, s.context, key,
                stride, 0.0F, dquery, stride);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, s.context, depth, s.context, scale, p, s.context, query,
                stride, 0.0F, dkey, stride);
  }
}

}  // namespace charlm
