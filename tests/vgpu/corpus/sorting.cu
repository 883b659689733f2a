// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Sorting, merging, selecting and searching.

typedef unsigned int u32;

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x

// Least significant digit first, one bit per pass, stable by two scans.
extern "C" __global__ void radix_sort_block(u32* values) {
  __shared__ u32 keys[256], ranks[256];
  int t = threadIdx.x;
  keys[t] = values[blockIdx.x * 256 + t];
  for (int bit = 0; bit < 32; bit++) {
    __syncthreads();
    u32 key = keys[t], zero = ~(key >> bit) & 1;
    ranks[t] = zero;
    __syncthreads();
    for (int distance = 1; distance < 256; distance *= 2) {
      u32 before = t >= distance ? ranks[t - distance] : 0;
      __syncthreads();
      ranks[t] += before;
      __syncthreads();
    }
    u32 zeros = ranks[255];
    keys[zero ? ranks[t] - 1 : zeros + t - ranks[t]] = key;
  }
  __syncthreads();
  values[blockIdx.x * 256 + t] = keys[t];
}

// One pass over four bits across blocks: count, then scatter with scanned offsets.
extern "C" __global__ void radix_count(const u32* keys, u32* counts, int shift, int n) {
  __shared__ u32 bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  INDEX;
  if (i < n) atomicAdd(&bins[keys[i] >> shift & 15], 1u);
  __syncthreads();
  if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

extern "C" __global__ void radix_scatter(const u32* in, const u32* offsets, u32* out, int shift, int n) {
  __shared__ u32 warp_counts[8][16];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane < 16) warp_counts[warp][lane] = 0;
  __syncwarp();
  INDEX;
  u32 key = i < n ? in[i] : 0, digit = i < n ? key >> shift & 15 : 16;
  u32 same = __match_any_sync(0xFFFFFFFFu, digit);
  u32 rank = __popc(same & ((1u << lane) - 1));
  if (digit < 16 && rank == 0) warp_counts[warp][digit] = __popc(same);
  __syncthreads();
  if (digit == 16) return;
  u32 at = offsets[digit * gridDim.x + blockIdx.x] + rank;
  for (int w = 0; w < warp; w++) at += warp_counts[w][digit];
  out[at] = key;
}

// Each thread finds its share of a merge by a diagonal search.
extern "C" __global__ void merge_path(const int* a, int size_a, const int* b, int size_b, int* out, int per_thread) {
  INDEX;
  int diagonal = min(i * per_thread, size_a + size_b), low = max(0, diagonal - size_b), high = min(diagonal, size_a);
  while (low < high) {
    int middle = (low + high) / 2;
    if (a[middle] <= b[diagonal - 1 - middle]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  int x = low, y = diagonal - low;
  for (int k = diagonal; k < min(diagonal + per_thread, size_a + size_b); k++) {
    bool from_a = y >= size_b || (x < size_a && a[x] <= b[y]);
    out[k] = from_a ? a[x++] : b[y++];
  }
}

extern "C" __global__ void odd_even_sort(short* values, int n) {
  extern __shared__ short staged[];
  for (int k = threadIdx.x; k < n; k += blockDim.x) staged[k] = values[k];
  for (int round = 0; round < n; round++) {
    __syncthreads();
    int k = 2 * threadIdx.x + round % 2;
    if (k + 1 < n && staged[k] > staged[k + 1]) {
      short t = staged[k];
      staged[k] = staged[k + 1];
      staged[k + 1] = t;
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < n; k += blockDim.x) values[k] = staged[k];
}

extern "C" __global__ void rank_sort(const float* in, float* out, int n) {
  INDEX;
  if (i >= n) return;
  int rank = 0;
  for (int k = 0; k < n; k++) rank += in[k] < in[i] || (in[k] == in[i] && k < i);
  out[rank] = in[i];
}

// Recursion of quicksort by hand, a stack per thread.
extern "C" __global__ void quick_sort(int* values, int per_thread) {
  INDEX;
  int* mine = values + i * per_thread;
  int stack[24], top = 0, low = 0, high = per_thread - 1;
  while (true) {
    while (low < high) {
      int pivot = mine[(low + high) / 2], a = low, b = high;
      while (a <= b) {
        while (mine[a] < pivot) a++;
        while (mine[b] > pivot) b--;
        if (a <= b) {
          int t = mine[a];
          mine[a++] = mine[b];
          mine[b--] = t;
        }
      }
      // The longer part waits, so that the stack stays logarithmic.
      if (b - low < high - a) {
        stack[top++] = a, stack[top++] = high;
        high = b;
      } else {
        stack[top++] = low, stack[top++] = b;
        low = a;
      }
    }
    if (top == 0) break;
    high = stack[--top], low = stack[--top];
  }
}

extern "C" __global__ void compact_stable(const int* in, int* out, int* count, int n) {
  __shared__ int warp_totals[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, base = 0;
  for (int first = 0; first < n; first += blockDim.x) {
    int i = first + threadIdx.x;
    bool keep = i < n && in[i] % 3 == 0;
    u32 kept = __ballot_sync(0xFFFFFFFFu, keep);
    if (lane == 0) warp_totals[warp] = __popc(kept);
    __syncthreads();
    int at = base + __popc(kept & ((1u << lane) - 1));
    for (int w = 0; w < warp; w++) at += warp_totals[w];
    if (keep) out[at] = in[i];
    for (int w = 0; w < blockDim.x / 32; w++) base += warp_totals[w];
    __syncthreads();
  }
  if (threadIdx.x == 0) *count = base;
}

// The k-th smallest by halving the range of values.
extern "C" __global__ void select_kth(const u32* in, int n, const int* ks, u32* out) {
  u32 low = 0, high = 0xFFFFFFFFu;
  while (low < high) {
    u32 middle = low + (high - low) / 2;
    int below = 0;
    for (int first = 0; first < n; first += blockDim.x) {
      int i = first + threadIdx.x;
      below += __syncthreads_count(i < n && in[i] <= middle);
    }
    if (below > ks[blockIdx.x]) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (threadIdx.x == 0) out[blockIdx.x] = low;
}

extern "C" __global__ void find_string(const char* text, int size, const char* pattern, int length, int* places,
                                       int* count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i + length <= size; i += gridDim.x * blockDim.x) {
    int k = 0;
    while (k < length && text[i + k] == pattern[k]) k++;
    if (k == length) places[atomicAdd(count, 1)] = i;
  }
}

extern "C" __global__ void run_lengths(const unsigned char* in, int* starts, int* count, int n) {
  INDEX;
  if (i < n && (i == 0 || in[i] != in[i - 1])) starts[atomicAdd(count, 1)] = i;
}

// Single-pass scan across blocks: each waits for the sum of the one before.
extern "C" __global__ void chained_scan(const int* in, int* out, volatile int* sums, volatile int* ready, int n) {
  __shared__ int values[128], before;
  INDEX;
  int t = threadIdx.x;
  values[t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int distance = 1; distance < 128; distance *= 2) {
    int other = t >= distance ? values[t - distance] : 0;
    __syncthreads();
    values[t] += other;
    __syncthreads();
  }
  if (t == 0) {
    before = 0;
    if (blockIdx.x > 0) {
      while (ready[blockIdx.x - 1] == 0) {
      }
      __threadfence();
      before = sums[blockIdx.x - 1];
    }
    sums[blockIdx.x] = before + values[127];
    __threadfence();
    ready[blockIdx.x] = 1;
  }
  __syncthreads();
  if (i < n) out[i] = before + values[t];
}
