// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Control flow: lanes part and meet again.

typedef unsigned int u32;

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x

extern "C" __global__ void dense_switch(const int* in, int* out, int n) {
  INDEX;
  if (i >= n) return;
  int x = in[i], result;
  switch (x & 15) {
    case 0:
      result = x + 1;
      break;
    case 1:
      result = x * 3;
      break;
    case 2:
      result = x ^ 0x55;
      break;
    case 3:
      result = -x;
      break;
    case 4:
      result = x / 5;
      break;
    case 5:
      result = x << 2;  // falls through
    case 6:
      result = x - 77;
      break;
    case 7:
      result = x % 9;
      break;
    case 8:
      result = ~x;
      break;
    case 9:
      result = x * x;
      break;
    case 10:
      result = x >> 3;
      break;
    case 11:
      result = x | 1024;
      break;
    default:
      result = 12345;
  }
  out[i] = result;
}

// A jump table that the optimizer cannot turn into selects: every case runs its own loop.
extern "C" __global__ void switch_with_loops(const int* in, int* out, int n) {
  INDEX;
  if (i >= n) return;
  int x = in[i], sum = 0;
  switch (x % 8) {
    case 0:
      for (int k = 0; k < x; k++) sum += k * k % 7;
      break;
    case 1:
      for (int k = x; k > 0; k /= 2) sum += k;
      break;
    case 2:
      for (int k = 1; k < x; k *= 3) sum ^= k;
      break;
    case 3:
      while (x % 7 != 0) sum += x++;
      break;
    case 4:
      do sum += x;
      while ((x -= 10) > 0);
      break;
    case 5:
      for (int k = 0; k < 5; k++) sum = sum * 31 + in[(i + k) % n];
      break;
    case 6:
      sum = in[n - 1 - i];
      break;
    default:
      sum = -1;
  }
  out[i] = sum;
}

extern "C" __global__ void sparse_switch(const int* in, int* out, int n) {
  INDEX;
  if (i >= n) return;
  switch (in[i]) {
    case -1000:
      out[i] = 1;
      return;
    case 0:
      out[i] = 2;
      return;
    case 17:
      out[i] = 3;
      return;
    case 100000:
      out[i] = 4;
      return;
    case 2000000000:
      out[i] = 5;
      return;
  }
  out[i] = 6;
}

extern "C" __global__ void collatz(const u32* in, u32* out, int n) {
  INDEX;
  if (i >= n) return;
  unsigned long long value = in[i];
  u32 steps = 0;
  while (value != 1) {
    value = value % 2 == 0 ? value / 2 : 3 * value + 1;
    steps++;
  }
  out[i] = steps;
}

extern "C" __global__ void nested_loops(const int* in, int* out, int n) {
  INDEX;
  if (i >= n) return;
  int limit = in[i], found = -1, visited = 0;
  for (int a = 1; a < limit && found < 0; a++) {
    for (int b = a; b < limit; b++) {
      visited++;
      if (b % 3 == 0) continue;
      int square = a * a + b * b;
      if (square > limit * limit) break;
      if (square == limit * limit) {
        found = 1000 * a + b;
        break;
      }
    }
  }
  out[2 * i] = found;
  out[2 * i + 1] = visited;
}

extern "C" __global__ void early_return(const int* in, int* out, int n) {
  __shared__ int staged[128];
  INDEX;
  staged[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  if (i >= n) return;
  if (staged[threadIdx.x] < 0) {
    out[i] = -1;
    return;
  }
  int sum = 0;
  for (int k = 0; k < 128; k++) {
    sum += staged[k];
    if (sum > 500) {
      out[i] = k;
      return;
    }
  }
  out[i] = sum;
}

extern "C" __global__ void short_circuit(const int* in, int* out, int n) {
  INDEX;
  if (i >= n) return;
  int x = in[i];
  // The right sides would read far outside where the left ones forbid it.
  bool a = x >= 0 && x < n && in[x] > 0;
  bool b = x < 0 || x >= n || in[x] < 10;
  out[i] = a | b << 1;
}

extern "C" __global__ void goto_machine(const int* in, int* out, int n) {
  INDEX;
  if (i >= n) return;
  int x = in[i] & 1023, steps = 0;
start:
  if (++steps > 100) goto done;
  if (x % 2 == 0) goto even;
  x = 3 * x + 1;
  if (x > 3000) goto done;
  goto start;
even:
  x /= 2;
  if (x > 1) goto start;
done:
  out[i] = 1000 * x + steps;
}

// Lanes leave a loop at different times and meet at the barrier of every round.
extern "C" __global__ void barrier_in_loop(const int* in, int* out, int rounds) {
  __shared__ int total;
  int mine = in[blockIdx.x * blockDim.x + threadIdx.x], seen = 0;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  for (int round = 0; round < rounds; round++) {
    if (round < mine) atomicAdd(&total, 1);
    __syncthreads();
    seen = 7 * seen + total;
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = seen;
}

extern "C" __global__ void binary_search(const int* sorted, int size, const int* keys, int* out, int n) {
  INDEX;
  if (i >= n) return;
  int low = 0, high = size;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (sorted[middle] < keys[i]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  out[i] = low;
}

extern "C" __global__ void mandelbrot(int* out, int width, int height, int limit) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  double cr = -2.0 + 3.0 * x / width, ci = -1.0 + 2.0 * y / height, zr = 0.0, zi = 0.0;
  int k = 0;
  for (; k < limit; k++) {
    double rr = __dmul_rn(zr, zr), ii = __dmul_rn(zi, zi);
    if (__dadd_rn(rr, ii) > 4.0) break;
    zi = __dadd_rn(__dmul_rn(__dmul_rn(2.0, zr), zi), ci);
    zr = __dadd_rn(__dadd_rn(rr, -ii), cr);
  }
  out[y * width + x] = k;
}

extern "C" __global__ void prime_sieve(unsigned char* composite, int limit) {
  for (int p = 2 + blockIdx.x; p * p <= limit; p += gridDim.x) {
    for (int m = p * p + threadIdx.x * p; m <= limit; m += blockDim.x * p) composite[m] = 1;
  }
}

extern "C" __global__ void trial_division(const u32* in, int* out, int n) {
  INDEX;
  if (i >= n) return;
  u32 x = in[i];
  bool prime = x > 1 && (x == 2 || x % 2 == 1);
  for (u32 d = 3; prime && d * d <= x; d += 2) prime = x % d != 0;
  out[i] = prime;
}

extern "C" __global__ void n_queens(int* out, int size) {
  // The queen of the first row stands in column threadIdx.x; count completions by backtracking over bits.
  u32 all = (1u << size) - 1, columns[16], left[16], right[16], open[16];
  int depth = 1, count = 0;
  if (int(threadIdx.x) >= size) return;
  u32 first = 1u << threadIdx.x;
  columns[1] = first, left[1] = first << 1, right[1] = first >> 1;
  open[1] = all & ~(columns[1] | left[1] | right[1]);
  while (depth > 0) {
    if (open[depth] == 0) {
      depth--;
      continue;
    }
    u32 bit = open[depth] & -open[depth];
    open[depth] ^= bit;
    if (depth == size - 1) {
      count++;
      continue;
    }
    columns[depth + 1] = columns[depth] | bit;
    left[depth + 1] = (left[depth] | bit) << 1;
    right[depth + 1] = (right[depth] | bit) >> 1;
    depth++;
    open[depth] = all & ~(columns[depth] | left[depth] | right[depth]);
  }
  atomicAdd(out, count);
}

extern "C" __global__ void predicates_into_mask(const float* in, u32* out, int n) {
  INDEX;
  if (i >= n) return;
  float x = in[i];
  bool a = x > 0.0f, b = x < 10.0f, c = x != x, d = (a && b) != c, e = !(a || d) ^ b;
  out[i] = a | b << 1 | c << 2 | d << 3 | e << 4;
}
