// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Reductions of blocks and of whole arrays, as frameworks write them.

typedef unsigned int u32;

template <class T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance >>= 1) value += __shfl_down_sync(0xFFFFFFFFu, value, distance);
  return value;
}

template <class T>
__device__ T block_sum(T value) {
  static __shared__ T partial[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  value = warp_sum(value);
  __syncthreads();
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = threadIdx.x < (blockDim.x + 31) / 32 ? partial[lane] : T(0);
  if (warp == 0) value = warp_sum(value);
  return value;
}

extern "C" __global__ void sum_rows(const float* in, float* out, int columns) {
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += in[blockIdx.x * columns + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" __global__ void sum_rows_double(const double* in, double* out, int columns) {
  double sum = 0.0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += in[blockIdx.x * columns + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// Two values through one block at once, and one after the other.
extern "C" __global__ void mean_and_variance(const float* in, float* out, int columns) {
  __shared__ float mean;
  const float* row = in + blockIdx.x * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) mean = sum / columns;
  __syncthreads();
  float squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
  squares = block_sum(squares);
  if (threadIdx.x == 0) {
    out[2 * blockIdx.x] = mean;
    out[2 * blockIdx.x + 1] = squares / (columns - 1);
  }
}

// Four floats per load, four accumulators, any rest one by one.
extern "C" __global__ void sum_vectorized(const float* in, float* out, int n) {
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  const float4* quads = reinterpret_cast<const float4*>(in);
  int i = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  for (int k = i; k < n / 4; k += stride) {
    float4 v = quads[k];
    sums[0] += v.x, sums[1] += v.y, sums[2] += v.z, sums[3] += v.w;
  }
  if (i < n % 4) sums[0] += in[n - n % 4 + i];
  float sum = block_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  if (threadIdx.x == 0) atomicAdd(out, sum);
}

// The last block to finish adds up what all of them left.
__device__ u32 tickets;

extern "C" __global__ void sum_last_block(const float* in, volatile float* partial, float* out, int n) {
  __shared__ bool last;
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  sum = 0.0f;
  for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out = sum;
}

// Pairs of value and place.
struct Best {
  float value;
  int index;
};

__device__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

extern "C" __global__ void arg_max(const float* in, int* out, int columns) {
  __shared__ Best best[32];
  Best mine = {__int_as_float(0xFF800000), 0x7FFFFFFF};
  for (int i = threadIdx.x; i < columns; i += blockDim.x) mine = better(mine, Best{in[blockIdx.x * columns + i], i});
  for (int distance = 16; distance > 0; distance /= 2) {
    Best other = {__shfl_down_sync(0xFFFFFFFFu, mine.value, distance),
                  __shfl_down_sync(0xFFFFFFFFu, mine.index, distance)};
    mine = better(mine, other);
  }
  if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < blockDim.x / 32; w++) mine = better(mine, best[w]);
    out[blockIdx.x] = mine.index;
  }
}

// Welford's update per thread, Chan's merge across lanes and warps.
struct Moments {
  float mean, squares, count;
};

__device__ Moments merged(Moments a, Moments b) {
  float count = a.count + b.count;
  if (count == 0.0f) return a;
  float delta = b.mean - a.mean, share = b.count / count;
  return {a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share, count};
}

extern "C" __global__ void welford(const float* in, float* out, int columns) {
  __shared__ Moments shared[32];
  Moments mine = {0.0f, 0.0f, 0.0f};
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    float x = in[blockIdx.x * columns + i];
    mine.count += 1.0f;
    float delta = x - mine.mean;
    mine.mean += delta / mine.count;
    mine.squares += delta * (x - mine.mean);
  }
  for (int mask = 16; mask > 0; mask /= 2) {
    Moments other;
    other.mean = __shfl_xor_sync(0xFFFFFFFFu, mine.mean, mask);
    other.squares = __shfl_xor_sync(0xFFFFFFFFu, mine.squares, mask);
    other.count = __shfl_xor_sync(0xFFFFFFFFu, mine.count, mask);
    mine = merged(mine, other);
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < blockDim.x / 32; w++) mine = merged(mine, shared[w]);
    out[2 * blockIdx.x] = mine.mean;
    out[2 * blockIdx.x + 1] = mine.squares / mine.count;
  }
}

// The classic tree in shared memory, unrolled by a template over the number of threads.
template <u32 threads>
__device__ int tree_sum(const int* in, int n) {
  __shared__ int sums[threads];
  u32 t = threadIdx.x;
  int sum = 0;
  for (u32 i = blockIdx.x * threads * 2 + t; i < n; i += threads * 2 * gridDim.x) {
    sum += in[i];
    if (i + threads < n) sum += in[i + threads];
  }
  sums[t] = sum;
  __syncthreads();
  if (threads >= 256) {
    if (t < 128) sums[t] += sums[t + 128];
    __syncthreads();
  }
  if (threads >= 128) {
    if (t < 64) sums[t] += sums[t + 64];
    __syncthreads();
  }
  if (t < 32) {
    sum = sums[t] + sums[t + 32];
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, distance);
  }
  return sum;
}

extern "C" __global__ void sum_tree_64(const int* in, int* out, int n) {
  int sum = tree_sum<64>(in, n);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" __global__ void sum_tree_256(const int* in, int* out, int n) {
  int sum = tree_sum<256>(in, n);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// Columns: x runs over them, y over the rows.
extern "C" __global__ void sum_columns(const float* in, float* out, int rows, int columns) {
  __shared__ float sums[8][33];
  int column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (column < columns) {
    for (int row = threadIdx.y; row < rows; row += 8) sum += in[row * columns + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int k = 1; k < 8; k++) sum += sums[k][threadIdx.x];
  out[column] = sum;
}

extern "C" __global__ void dot_product(const float* a, const float* b, double* out, int n) {
  double sum = 0.0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += double(a[i]) * b[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) atomicAdd(out, sum);
}

// Not finite anywhere? As a gradient scaler asks.
extern "C" __global__ void find_infinite(const float* in, float* found, int n) {
  bool bad = false;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) bad |= !isfinite(in[i]);
  if (__syncthreads_or(bad) && threadIdx.x == 0) *found = 1.0f;
}

// Every block waits for all the others between two phases.
__device__ u32 arrived;

__device__ void grid_barrier(u32 goal) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(&arrived, 1u);
    while (*reinterpret_cast<volatile u32*>(&arrived) < goal) {
    }
    __threadfence();
  }
  __syncthreads();
}

extern "C" __global__ void normalize_across_blocks(float* values, float* sums, int n, int rounds) {
  for (int round = 0; round < rounds; round++) {
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += values[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[round * gridDim.x + blockIdx.x] = sum;
    grid_barrier((round + 1) * gridDim.x);
    float total = 0.0f;
    for (int b = 0; b < gridDim.x; b++) total += sums[round * gridDim.x + b];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) values[i] += total;
  }
}
