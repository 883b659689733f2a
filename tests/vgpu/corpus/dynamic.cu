// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Dynamic programming.

extern "C" __global__ void edit_distance(const char* texts, const int* starts, int* out, int pairs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  const char *a = texts + starts[2 * i], *b = texts + starts[2 * i + 1];
  int size_a = starts[2 * i + 1] - starts[2 * i], size_b = starts[2 * i + 2] - starts[2 * i + 1];
  unsigned char row[64];
  for (int k = 0; k <= size_b; k++) row[k] = (unsigned char)k;
  for (int r = 0; r < size_a; r++) {
    int diagonal = row[0];
    row[0] = (unsigned char)(r + 1);
    for (int c = 0; c < size_b; c++) {
      int change = diagonal + (a[r] != b[c]);
      diagonal = row[c + 1];
      row[c + 1] = (unsigned char)min(change, min(row[c], row[c + 1]) + 1);
    }
  }
  out[i] = row[size_b];
}

// Anti-diagonals in one block, three of them at a time.
extern "C" __global__ void longest_common_subsequence(const char* a, int size_a, const char* b, int size_b, int* out) {
  extern __shared__ int diagonals[];
  int width = size_a + 1;
  for (int k = threadIdx.x; k < 3 * width; k += blockDim.x) diagonals[k] = 0;
  __syncthreads();
  for (int d = 2; d <= size_a + size_b; d++) {
    int* now = diagonals + d % 3 * width;
    const int *last = diagonals + (d + 2) % 3 * width, *older = diagonals + (d + 1) % 3 * width;
    for (int r = threadIdx.x; r <= size_a; r += blockDim.x) {
      int c = d - r;
      if (r < 1 || c < 1 || c > size_b) {
        if (r <= d) now[r] = 0;
        continue;
      }
      now[r] = a[r - 1] == b[c - 1] ? older[r - 1] + 1 : max(last[r - 1], last[r]);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = diagonals[(size_a + size_b) % 3 * width + size_a];
}

extern "C" __global__ void knapsack(const int* weights, const int* values, int items, int capacity, int* out) {
  extern __shared__ int best[];
  int* now = best;
  int* next = best + capacity + 1;
  for (int c = threadIdx.x; c <= capacity; c += blockDim.x) now[c] = 0;
  __syncthreads();
  for (int k = 0; k < items; k++) {
    for (int c = threadIdx.x; c <= capacity; c += blockDim.x) {
      next[c] = c >= weights[k] ? max(now[c], now[c - weights[k]] + values[k]) : now[c];
    }
    __syncthreads();
    int* swap = now;
    now = next;
    next = swap;
  }
  for (int c = threadIdx.x; c <= capacity; c += blockDim.x) out[c] = now[c];
}

extern "C" __global__ void longest_increasing(const int* in, int* out, int per_thread) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int* mine = in + i * per_thread;
  int tails[64], size = 0;
  for (int k = 0; k < per_thread; k++) {
    int low = 0, high = size;
    while (low < high) {
      int middle = (low + high) / 2;
      if (tails[middle] < mine[k]) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    tails[low] = mine[k];
    size = max(size, low + 1);
  }
  out[i] = size;
}

// Pascal's triangle modulo a prime, a row per step.
extern "C" __global__ void binomials(unsigned* out, int rows) {
  __shared__ unsigned row[128];
  int t = threadIdx.x;
  row[t] = t == 0;
  for (int r = 0; r < rows; r++) {
    __syncthreads();
    if (t <= r) out[r * (r + 1) / 2 + t] = row[t];
    unsigned left = t > 0 ? row[t - 1] : 0;
    __syncthreads();
    row[t] = (row[t] + left) % 1000000007u;
  }
}

extern "C" __global__ void viterbi(const float* start, const float* transition, const float* emission, const int* seen,
                                   int* path, int states, int steps) {
  extern __shared__ float scores[];
  int* from = reinterpret_cast<int*>(scores + 2 * states);
  int s = threadIdx.x;
  scores[s] = start[s] + emission[s * 4 + seen[0]];
  __syncthreads();
  for (int step = 1; step < steps; step++) {
    const float* last = scores + (step + 1) % 2 * states;
    int best = 0;
    for (int k = 1; k < states; k++) {
      if (last[k] + transition[k * states + s] > last[best] + transition[best * states + s]) best = k;
    }
    scores[step % 2 * states + s] = last[best] + transition[best * states + s] + emission[s * 4 + seen[step]];
    from[step * states + s] = best;
    __syncthreads();
  }
  if (s != 0) return;
  const float* last = scores + (steps + 1) % 2 * states;
  int best = 0;
  for (int k = 1; k < states; k++) {
    if (last[k] > last[best]) best = k;
  }
  for (int step = steps - 1; step >= 0; step--) {
    path[step] = best;
    if (step > 0) best = from[step * states + best];
  }
}
