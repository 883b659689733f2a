// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Kernels of training frameworks: activations, norms, losses, optimizers over lists of tensors.

typedef unsigned int u32;

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x

__device__ float block_reduce(float value, bool maximum) {
  __shared__ float partial[33];
  for (int mask = 16; mask > 0; mask /= 2) {
    float other = __shfl_xor_sync(0xFFFFFFFFu, value, mask);
    value = maximum ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < blockDim.x / 32; w++) value = maximum ? fmaxf(value, partial[w]) : value + partial[w];
    partial[32] = value;
  }
  __syncthreads();
  return partial[32];
}

extern "C" __global__ void softmax(const float* in, float* out, int columns) {
  const float* row = in + blockIdx.x * columns;
  float largest = __int_as_float(0xFF800000), sum = 0.0f;
  for (int k = threadIdx.x; k < columns; k += blockDim.x) largest = fmaxf(largest, row[k]);
  largest = block_reduce(largest, true);
  for (int k = threadIdx.x; k < columns; k += blockDim.x) sum += expf(row[k] - largest);
  sum = block_reduce(sum, false);
  for (int k = threadIdx.x; k < columns; k += blockDim.x) out[blockIdx.x * columns + k] = expf(row[k] - largest) / sum;
}

// One pass: the running maximum rescales the running sum.
extern "C" __global__ void online_log_softmax(const float* in, float* out, int columns) {
  const float* row = in + blockIdx.x * columns;
  float largest = __int_as_float(0xFF800000), sum = 0.0f;
  for (int k = threadIdx.x; k < columns; k += 32) {
    float next = fmaxf(largest, row[k]);
    sum = sum * expf(largest - next) + expf(row[k] - next);
    largest = next;
  }
  for (int mask = 16; mask > 0; mask /= 2) {
    float other_largest = __shfl_xor_sync(0xFFFFFFFFu, largest, mask), other = __shfl_xor_sync(0xFFFFFFFFu, sum, mask);
    float next = fmaxf(largest, other_largest);
    sum = sum * expf(largest - next) + other * expf(other_largest - next);
    largest = next;
  }
  float shift = largest + logf(sum);
  for (int k = threadIdx.x; k < columns; k += 32) out[blockIdx.x * columns + k] = row[k] - shift;
}

extern "C" __global__ void cross_entropy(const float* logits, const int* targets, float* losses, float* gradients,
                                         int columns) {
  const float* row = logits + blockIdx.x * columns;
  float largest = __int_as_float(0xFF800000), sum = 0.0f;
  for (int k = threadIdx.x; k < columns; k += blockDim.x) largest = fmaxf(largest, row[k]);
  largest = block_reduce(largest, true);
  for (int k = threadIdx.x; k < columns; k += blockDim.x) sum += expf(row[k] - largest);
  sum = block_reduce(sum, false);
  int target = targets[blockIdx.x];
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + largest - row[target];
  for (int k = threadIdx.x; k < columns; k += blockDim.x) {
    gradients[blockIdx.x * columns + k] = expf(row[k] - largest) / sum - (k == target ? 1.0f : 0.0f);
  }
}

extern "C" __global__ void layer_norm(const float* in, const float* weight, const float* bias, float* out, int columns,
                                      float epsilon) {
  const float* row = in + blockIdx.x * columns;
  float sum = 0.0f, squares = 0.0f;
  for (int k = threadIdx.x; k < columns; k += blockDim.x) sum += row[k];
  float mean = block_reduce(sum, false) / columns;
  for (int k = threadIdx.x; k < columns; k += blockDim.x) squares += (row[k] - mean) * (row[k] - mean);
  float scale = rsqrtf(block_reduce(squares, false) / columns + epsilon);
  for (int k = threadIdx.x; k < columns; k += blockDim.x) {
    out[blockIdx.x * columns + k] = (row[k] - mean) * scale * weight[k] + bias[k];
  }
}

extern "C" __global__ void rms_norm(const float4* in, const float4* weight, float4* out, int quads, float epsilon) {
  const float4* row = in + blockIdx.x * quads;
  float sum = 0.0f;
  for (int k = threadIdx.x; k < quads; k += blockDim.x) {
    float4 v = row[k];
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  float scale = rsqrtf(block_reduce(sum, false) / (4 * quads) + epsilon);
  for (int k = threadIdx.x; k < quads; k += blockDim.x) {
    float4 v = row[k], w = weight[k];
    out[blockIdx.x * quads + k] =
        make_float4(v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w);
  }
}

extern "C" __global__ void dropout(const float* in, float* out, unsigned long long seed, float keep, int n) {
  INDEX;
  if (i >= n) return;
  unsigned long long z = seed + 0x9E3779B97F4A7C15ull * (i + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  float uniform = float(z >> 40) * (1.0f / 16777216.0f);
  out[i] = uniform < keep ? in[i] / keep : 0.0f;
}

extern "C" __global__ void embedding_gradient(const int* tokens, const float* gradient, float* table, int width,
                                              int n) {
  INDEX;
  if (i < n * width) atomicAdd(&table[tokens[i / width] * width + i % width], gradient[i]);
}

extern "C" __global__ void sgd_momentum(float* p, const float* g, float* velocity, float rate, float momentum,
                                        float decay, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float d = g[i] + decay * p[i];
    float v = momentum * velocity[i] + d;
    velocity[i] = v;
    p[i] -= rate * v;
  }
}

extern "C" __global__ void adamw(float* __restrict__ p, const float* __restrict__ g, float* __restrict__ m,
                                 float* __restrict__ v, float rate, float beta1, float beta2, float epsilon,
                                 float decay, int step, int n) {
  INDEX;
  if (i >= n) return;
  float correction1 = 1.0f - powf(beta1, step), correction2 = 1.0f - powf(beta2, step);
  float gradient = g[i], parameter = p[i] * (1.0f - rate * decay);
  float m1 = beta1 * m[i] + (1.0f - beta1) * gradient;
  float v1 = beta2 * v[i] + (1.0f - beta2) * gradient * gradient;
  m[i] = m1;
  v[i] = v1;
  p[i] = parameter - rate * (m1 / correction1) / (sqrtf(v1 / correction2) + epsilon);
}

extern "C" __global__ void lion(float* p, const float* g, float* m, float rate, float beta1, float beta2, float decay,
                                int n) {
  INDEX;
  if (i >= n) return;
  float c = beta1 * m[i] + (1.0f - beta1) * g[i];
  float sign = c > 0.0f ? 1.0f : (c < 0.0f ? -1.0f : 0.0f);
  p[i] -= rate * (sign + decay * p[i]);
  m[i] = beta2 * m[i] + (1.0f - beta2) * g[i];
}

// A list of tensors in the kernel's own parameters: blocks find their tensor and chunk in a table.
const int list_size = 24, list_blocks = 80, chunk_size = 512;

struct TensorList {
  float* p[list_size];
  const float* g[list_size];
  float* m[list_size];
  int sizes[list_size];
  unsigned char tensor_of_block[list_blocks];
  int chunk_of_block[list_blocks];
};

extern "C" __global__ void multi_tensor_sgd(TensorList list, float rate, float momentum) {
  int tensor = list.tensor_of_block[blockIdx.x], first = list.chunk_of_block[blockIdx.x] * chunk_size;
  int last = min(first + chunk_size, list.sizes[tensor]);
  float* p = list.p[tensor];
  const float* g = list.g[tensor];
  float* m = list.m[tensor];
  for (int base = first + threadIdx.x * 4; base < last; base += blockDim.x * 4) {
    float parameters[4], gradients[4], moments[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
      bool inside = base + k < last;
      parameters[k] = inside ? p[base + k] : 0.0f;
      gradients[k] = inside ? g[base + k] : 0.0f;
      moments[k] = inside ? m[base + k] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
      moments[k] = momentum * moments[k] + gradients[k];
      parameters[k] -= rate * moments[k];
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
      if (base + k < last) {
        p[base + k] = parameters[k];
        m[base + k] = moments[k];
      }
    }
  }
}

extern "C" __global__ void multi_tensor_norm(TensorList list, float* norms_squared) {
  int tensor = list.tensor_of_block[blockIdx.x], first = list.chunk_of_block[blockIdx.x] * chunk_size;
  int last = min(first + chunk_size, list.sizes[tensor]);
  float sum = 0.0f;
  for (int k = first + threadIdx.x; k < last; k += blockDim.x) sum += list.g[tensor][k] * list.g[tensor][k];
  sum = block_reduce(sum, false);
  if (threadIdx.x == 0) atomicAdd(&norms_squared[tensor], sum);
}

extern "C" __global__ void clip_by_norm(float* g, const float* norm_squared, float limit, int n) {
  INDEX;
  float factor = fminf(1.0f, limit / (sqrtf(*norm_squared) + 1e-6f));
  if (i < n) g[i] *= factor;
}

extern "C" __global__ void unscale(float* g, const float* scale, float* found, int n) {
  INDEX;
  if (i >= n) return;
  float value = g[i] * (1.0f / *scale);
  g[i] = value;
  if (!isfinite(value)) atomicExch(found, 1.0f);
}

extern "C" __global__ void rotary_embedding(float2* q, int positions, int pairs, float base) {
  INDEX;
  if (i >= positions * pairs) return;
  float angle = (i / pairs) * powf(base, -2.0f * (i % pairs) / (2 * pairs)), s, c;
  sincosf(angle, &s, &c);
  float2 v = q[i];
  q[i] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
}

extern "C" __global__ void ema(float* average, const float* p, float decay, int n) {
  INDEX;
  if (i < n) average[i] = __fmaf_rn(decay, average[i] - p[i], p[i]);
}
