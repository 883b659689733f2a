// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Blocks that share memory between barriers.

typedef unsigned int u32;

const int tile = 16;

extern "C" __global__ void transpose(const float* in, float* out, int width, int height) {
  __shared__ float block[tile][tile + 1];
  int x = blockIdx.x * tile + threadIdx.x, y = blockIdx.y * tile + threadIdx.y;
  if (x < width && y < height) block[threadIdx.y][threadIdx.x] = in[y * width + x];
  __syncthreads();
  x = blockIdx.y * tile + threadIdx.x;
  y = blockIdx.x * tile + threadIdx.y;
  if (x < height && y < width) out[y * height + x] = block[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void matrix_multiply(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float left[tile][tile], right[tile][tile];
  int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float sum = 0.0f;
  for (int first = 0; first < k; first += tile) {
    left[threadIdx.y][threadIdx.x] = row < m && first + threadIdx.x < k ? a[row * k + first + threadIdx.x] : 0.0f;
    right[threadIdx.y][threadIdx.x] =
        column < n && first + threadIdx.y < k ? b[(first + threadIdx.y) * n + column] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < tile; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

// Each thread a 4 by 4 piece of a 64 by 64 tile.
extern "C" __global__ void matrix_multiply_registers(const float* a, const float* b, float* c, int n) {
  __shared__ float left[8][64];
  __shared__ float4 right[8][16];
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sums[4][4] = {};
  for (int first = 0; first < n; first += 8) {
    for (int i = threadIdx.x; i < 512; i += blockDim.x)
      left[i % 8][i / 8] = a[(blockIdx.y * 64 + i / 8) * n + first + i % 8];
    for (int i = threadIdx.x; i < 128; i += blockDim.x) {
      right[i / 16][i % 16] = reinterpret_cast<const float4*>(b + (first + i / 16) * n + blockIdx.x * 64)[i % 16];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; k++) {
      float4 r = right[k][tx];
      float rights[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
      for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) sums[i][j] += left[k][4 * ty + i] * rights[j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i++) {
    reinterpret_cast<float4*>(c + (blockIdx.y * 64 + 4 * ty + i) * n + blockIdx.x * 64)[tx] =
        make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
  }
}

extern "C" __global__ void histogram(const unsigned char* in, u32* bins, int n) {
  __shared__ u32 counts[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) counts[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&counts[in[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], counts[i]);
}

// Inclusive, Hillis and Steele.
extern "C" __global__ void scan_inclusive(const int* in, int* out) {
  __shared__ int sums[2][256];
  int now = 0, i = threadIdx.x;
  sums[0][i] = in[blockIdx.x * 256 + i];
  __syncthreads();
  for (int distance = 1; distance < 256; distance *= 2) {
    sums[1 - now][i] = sums[now][i] + (i >= distance ? sums[now][i - distance] : 0);
    now = 1 - now;
    __syncthreads();
  }
  out[blockIdx.x * 256 + i] = sums[now][i];
}

// Exclusive, Blelloch: up the tree and down again, two elements per thread.
extern "C" __global__ void scan_exclusive(const int* in, int* out, int* totals) {
  extern __shared__ int tree[];
  int size = 2 * blockDim.x, base = blockIdx.x * size;
  tree[2 * threadIdx.x] = in[base + 2 * threadIdx.x];
  tree[2 * threadIdx.x + 1] = in[base + 2 * threadIdx.x + 1];
  int distance = 1;
  for (int pairs = size / 2; pairs > 0; pairs /= 2) {
    __syncthreads();
    if (threadIdx.x < pairs) {
      int left = distance * (2 * threadIdx.x + 1) - 1, right = distance * (2 * threadIdx.x + 2) - 1;
      tree[right] += tree[left];
    }
    distance *= 2;
  }
  if (threadIdx.x == 0) {
    totals[blockIdx.x] = tree[size - 1];
    tree[size - 1] = 0;
  }
  for (int pairs = 1; pairs < size; pairs *= 2) {
    distance /= 2;
    __syncthreads();
    if (threadIdx.x < pairs) {
      int left = distance * (2 * threadIdx.x + 1) - 1, right = distance * (2 * threadIdx.x + 2) - 1;
      int value = tree[left];
      tree[left] = tree[right];
      tree[right] += value;
    }
  }
  __syncthreads();
  out[base + 2 * threadIdx.x] = tree[2 * threadIdx.x];
  out[base + 2 * threadIdx.x + 1] = tree[2 * threadIdx.x + 1];
}

extern "C" __global__ void bitonic_sort(u32* values) {
  extern __shared__ u32 keys[];
  u32* mine = values + blockIdx.x * blockDim.x;
  keys[threadIdx.x] = mine[threadIdx.x];
  for (u32 size = 2; size <= blockDim.x; size *= 2) {
    for (u32 stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      u32 other = threadIdx.x ^ stride;
      if (other > threadIdx.x) {
        bool up = (threadIdx.x & size) == 0;
        u32 a = keys[threadIdx.x], b = keys[other];
        if ((a > b) == up) {
          keys[threadIdx.x] = b;
          keys[other] = a;
        }
      }
    }
  }
  __syncthreads();
  mine[threadIdx.x] = keys[threadIdx.x];
}

extern "C" __global__ void stencil_1d(const int* in, int* out, int n) {
  const int radius = 3;
  __shared__ int window[128 + 2 * radius];
  int i = blockIdx.x * blockDim.x + threadIdx.x, at = threadIdx.x + radius;
  window[at] = i < n ? in[i] : 0;
  if (threadIdx.x < radius) {
    window[at - radius] = i >= radius ? in[i - radius] : 0;
    window[at + blockDim.x] = i + int(blockDim.x) < n ? in[i + blockDim.x] : 0;
  }
  __syncthreads();
  if (i >= n) return;
  int sum = 0;
  for (int k = -radius; k <= radius; k++) sum += window[at + k];
  out[i] = sum;
}

extern "C" __global__ void convolution_2d(const float* in, const float* filter, float* out, int width, int height) {
  __shared__ float patch[tile + 4][tile + 4];
  int x0 = blockIdx.x * tile - 2, y0 = blockIdx.y * tile - 2;
  for (int y = threadIdx.y; y < tile + 4; y += tile) {
    for (int x = threadIdx.x; x < tile + 4; x += tile) {
      bool inside = x0 + x >= 0 && x0 + x < width && y0 + y >= 0 && y0 + y < height;
      patch[y][x] = inside ? in[(y0 + y) * width + x0 + x] : 0.0f;
    }
  }
  __syncthreads();
  int x = blockIdx.x * tile + threadIdx.x, y = blockIdx.y * tile + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0.0f;
  for (int j = 0; j < 5; j++) {
    for (int i = 0; i < 5; i++) sum += filter[5 * j + i] * patch[threadIdx.y + j][threadIdx.x + i];
  }
  out[y * width + x] = sum;
}

extern "C" __global__ void reverse_block(int* values) {
  extern __shared__ int staged[];
  staged[threadIdx.x] = values[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  values[blockIdx.x * blockDim.x + threadIdx.x] = staged[blockDim.x - 1 - threadIdx.x];
}

// One dynamic allocation cut into arrays of different types.
extern "C" __global__ void shared_arena(const double* a, const short* b, double* out) {
  extern __shared__ __align__(16) unsigned char arena[];
  double* weights = reinterpret_cast<double*>(arena);
  int* sums = reinterpret_cast<int*>(weights + blockDim.x);
  short* codes = reinterpret_cast<short*>(sums + blockDim.x);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  weights[threadIdx.x] = a[i];
  codes[threadIdx.x] = b[i];
  __syncthreads();
  int next = (threadIdx.x + 1) % blockDim.x;
  sums[threadIdx.x] = codes[next] + codes[threadIdx.x];
  __syncthreads();
  out[i] = weights[next] * sums[next];
}

extern "C" __global__ void barrier_counts(const int* in, int* out) {
  int value = in[blockIdx.x * blockDim.x + threadIdx.x];
  int positive = __syncthreads_count(value > 0);
  int every = __syncthreads_and(value > -90);
  int some = __syncthreads_or(value > 90);
  if (threadIdx.x == 0) {
    out[3 * blockIdx.x] = positive;
    out[3 * blockIdx.x + 1] = every != 0;
    out[3 * blockIdx.x + 2] = some != 0;
  }
}

// A producer warp and consumer warps that meet at named barriers.
extern "C" __global__ void named_barriers(const int* in, int* out, int rounds) {
  __shared__ int buffer[96];
  int lane = threadIdx.x - 32;
  int sum = 0;
  for (int round = 0; round < rounds; round++) {
    if (threadIdx.x < 32) {
      for (int k = threadIdx.x; k < 96; k += 32) buffer[k] = in[(blockIdx.x * rounds + round) * 96 + k];
      asm volatile("bar.sync 1, 128;" ::: "memory");
      asm volatile("bar.sync 2, 128;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 128;" ::: "memory");
      sum += buffer[95 - lane] * (round + 1);
      asm volatile("bar.sync 2, 128;" ::: "memory");
    }
  }
  if (lane >= 0) out[blockIdx.x * 96 + lane] = sum;
}

template <class T, int threads>
__device__ T block_maximum(T value) {
  __shared__ T values[threads];
  values[threadIdx.x] = value;
  __syncthreads();
#pragma unroll
  for (int half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half && values[threadIdx.x + half] > values[threadIdx.x]) {
      values[threadIdx.x] = values[threadIdx.x + half];
    }
    __syncthreads();
  }
  return values[0];
}

extern "C" __global__ void templated_maximum(const int* a, const double* b, int* out_a, double* out_b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int largest = block_maximum<int, 128>(a[i]);
  double largest_b = block_maximum<double, 128>(b[i]);
  if (threadIdx.x == 0) {
    out_a[blockIdx.x] = largest;
    out_b[blockIdx.x] = largest_b;
  }
}
