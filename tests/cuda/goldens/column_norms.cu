// kernel "stepfuse_columns_f32" cols strided strict scalars 0
//   arg a0 "x": f32 [.12] read
//   partial 0 "norm" = norm a0 : math f64 result f32
// a thread per column, eight rows of lanes at a time

struct alignas(16) Chunk {
  unsigned row, unit, index, part;
};

/// A pointer that was loaded from memory, with what the compiler cannot know: it points to global memory.
template <class T>
__device__ __forceinline__ T* global(T* pointer) {
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}

__device__ __forceinline__ double add(double a, double b) { return __dadd_rn(a, b); }

/// The 64 lanes of each of 32 columns added by halves: lane l takes lane l + 32, then l + 16, ... Thread (x, y) holds
/// lanes y, y + 8, ... of column x. Called by the whole block, which gets column x's sum everywhere.
template <class T, T (*combine)(T, T)>
__device__ __forceinline__ T fold_columns(T (&lanes)[8]) {
  __shared__ T shared[8][32];
  const unsigned x = threadIdx.x % 32, y = threadIdx.x / 32;
#pragma unroll
  for (int half = 4; half > 0; half /= 2) {
#pragma unroll
    for (int k = 0; k < half; ++k) lanes[k] = combine(lanes[k], lanes[k + half]);
  }
  shared[y][x] = lanes[0];
  for (unsigned half = 4; half > 0; half /= 2) {
    __syncthreads();
    if (y < half) shared[y][x] = combine(shared[y][x], shared[y + half][x]);
  }
  __syncthreads();
  const T sum = shared[0][x];
  __syncthreads();
  return sum;
}

/// Partials of many blocks added pairwise by index (0 + 1, 2 + 3, ...; an odd last one moves up) by one thread.
template <double (*combine)(double, double)>
__device__ __forceinline__ double fold_column(volatile double* partials, unsigned count) {
  for (; count > 1; count = (count + 1) / 2) {
    for (unsigned i = 0; i < count / 2; ++i) partials[i] = combine(partials[2 * i], partials[2 * i + 1]);
    if (count % 2 != 0) partials[count / 2] = partials[count - 1];
  }
  return partials[0];
}

struct Row {
  const double* scalars;
  const unsigned* skip;
  long long d0, d1, d2;
  unsigned* tickets;
  const float* x_2;
  long long x_2_stride[3];
  double* norm_partials;
  float* norm;
};

/// Finishes sums (square root, the one rounding) and stores the results.
__device__ __forceinline__ void store_results(const Row& row, long long result, double norm) {
  row.norm[result] = static_cast<float>(__dsqrt_rn(norm));
}

extern "C" __global__ void __launch_bounds__(256, 4)
stepfuse_columns_f32(const Chunk* chunks, unsigned chunk_count, const Row* rows) {
  const unsigned x = threadIdx.x % 32, y = threadIdx.x / 32;
  __shared__ bool last;
  for (unsigned c = blockIdx.x; c < chunk_count; c += gridDim.x) {
    const Chunk chunk = chunks[c];
    const Row& row = rows[chunk.row];
    if (row.skip != nullptr && *row.skip != 0) continue;
    const unsigned cols = static_cast<unsigned>(row.d2);
    const bool inside = chunk.index * 32 + x < cols;
    const unsigned column = min(chunk.index * 32 + x, cols - 1);
    const long long begin = chunk.part * 4096ll;
    const unsigned count = inside ? static_cast<unsigned>(min(row.d1 - begin, 4096ll)) : 0;
    const long long x_2_step = row.x_2_stride[1];
    const float* x_2_at = global(row.x_2) + begin * row.x_2_stride[1] + column * row.x_2_stride[2] + y * x_2_step;
    double norm_lanes[8] = {};
    for (unsigned i = y; i < count; i += 64) {
#pragma unroll
      for (unsigned b = 0; b < 8; ++b) {
        const unsigned j = i + 8 * b;
        if (j < count) {
          const float x_2 = x_2_at[8 * b * x_2_step];
          norm_lanes[b] = __fma_rn(static_cast<double>(x_2), static_cast<double>(x_2), norm_lanes[b]);
        }
      }
      x_2_at += 64 * x_2_step;
    }
    const double norm = fold_columns<double, add>(norm_lanes);
    const unsigned parts = static_cast<unsigned>(max((row.d1 + 4095) / 4096, 1ll));
    const long long result = static_cast<long long>(chunk.unit) * cols + column;
    if (parts == 1) {
      if (y == 0 && inside) {
        store_results(row, result, norm);
      }
      continue;
    }
    if (y == 0 && inside) {
      row.norm_partials[result * parts + chunk.part] = norm;
      __threadfence();
    }
    __syncthreads();
    unsigned* const ticket = row.tickets + chunk.unit * ((cols + 31) / 32) + chunk.index;
    if (threadIdx.x == 0) last = atomicAdd(ticket, 1u) == parts - 1;
    __syncthreads();
    if (last) {
      __threadfence();
      if (y == 0 && inside) {
        const double norm = fold_column<add>(row.norm_partials + result * parts, parts);
        store_results(row, result, norm);
      }
      if (threadIdx.x == 0) *ticket = 0;
    }
    __syncthreads();
  }
}
