// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Generators of random numbers whose first outputs are published.

typedef unsigned int u32;
typedef unsigned long long u64;

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x

struct Philox {
  u32 counter[4], key[2];

  __device__ void round() {
    u32 high0 = __umulhi(0xD2511F53u, counter[0]), low0 = 0xD2511F53u * counter[0];
    u32 high1 = __umulhi(0xCD9E8D57u, counter[2]), low1 = 0xCD9E8D57u * counter[2];
    counter[0] = high1 ^ counter[1] ^ key[0];
    counter[1] = low1;
    counter[2] = high0 ^ counter[3] ^ key[1];
    counter[3] = low0;
  }

  __device__ void run() {
    for (int k = 0; k < 10; k++) {
      if (k != 0) {
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
      }
      round();
    }
  }
};

extern "C" __global__ void philox(const u32* counters, const u32* keys, uint4* out, int n) {
  INDEX;
  if (i >= n) return;
  Philox state;
  for (int k = 0; k < 4; k++) state.counter[k] = counters[4 * i + k];
  for (int k = 0; k < 2; k++) state.key[k] = keys[2 * i + k];
  state.run();
  out[i] = make_uint4(state.counter[0], state.counter[1], state.counter[2], state.counter[3]);
}

extern "C" __global__ void xorshift32(u32* states, int steps, int n) {
  INDEX;
  if (i >= n) return;
  u32 x = states[i];
  for (int k = 0; k < steps; k++) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
  }
  states[i] = x;
}

extern "C" __global__ void xorshift128plus(ulonglong2* states, u64* out, int steps, int n) {
  INDEX;
  if (i >= n) return;
  u64 a = states[i].x, b = states[i].y, result = 0;
  for (int k = 0; k < steps; k++) {
    result = a + b;
    u64 t = a ^ (a << 23);
    a = b;
    b = t ^ b ^ (t >> 18) ^ (a >> 5);
  }
  states[i] = make_ulonglong2(a, b);
  out[i] = result;
}

extern "C" __global__ void lehmer(const u32* seeds, u32* out, int steps, int n) {
  INDEX;
  if (i >= n) return;
  u32 x = seeds[i];
  for (int k = 0; k < steps; k++) x = u32(u64(x) * 48271u % 2147483647u);
  out[i] = x;
}

// x -> a x + c, jumped ahead by squaring the map.
extern "C" __global__ void lcg_jump(const u64* steps, u64* out, u64 seed, int n) {
  INDEX;
  if (i >= n) return;
  u64 a = 6364136223846793005ull, c = 1442695040888963407ull, total_a = 1, total_c = 0;
  for (u64 e = steps[i]; e != 0; e >>= 1) {
    if (e & 1) {
      total_a *= a;
      total_c = total_c * a + c;
    }
    c *= a + 1;
    a *= a;
  }
  out[i] = total_a * seed + total_c;
}

extern "C" __global__ void pcg32(const u64* seeds, const u64* streams, u32* out, int draws) {
  INDEX;
  u64 state = 0, increment = streams[i] << 1 | 1;
  state = state * 6364136223846793005ull + increment;
  state += seeds[i];
  state = state * 6364136223846793005ull + increment;
  for (int k = 0; k < draws; k++) {
    u64 old = state;
    state = old * 6364136223846793005ull + increment;
    u32 word = u32(((old >> 18) ^ old) >> 27), turn = u32(old >> 59);
    out[i * draws + k] = word >> turn | word << (-turn & 31);
  }
}

// One block keeps the 624 words of the twister in shared memory.
extern "C" __global__ void mersenne_twister(const u32* seeds, u32* out, int draws) {
  __shared__ u32 state[624];
  if (threadIdx.x == 0) {
    state[0] = seeds[blockIdx.x];
    for (u32 k = 1; k < 624; k++) state[k] = 1812433253u * (state[k - 1] ^ state[k - 1] >> 30) + k;
  }
  __syncthreads();
  for (int first = 0; first < draws; first += 624) {
    // Word k needs k + 1 old and k + 397 new where that wraps: three stretches that do not meet.
    const int stretches[4] = {0, 227, 454, 623};
    for (int s = 0; s < 3; s++) {
      int k = stretches[s] + threadIdx.x;
      u32 word = 0;
      if (k < stretches[s + 1]) {
        u32 y = (state[k] & 0x80000000u) | (state[k + 1] & 0x7FFFFFFFu);
        word = state[(k + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908B0DFu : 0u);
      }
      __syncthreads();
      if (k < stretches[s + 1]) state[k] = word;
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      u32 y = (state[623] & 0x80000000u) | (state[0] & 0x7FFFFFFFu);
      state[623] = state[396] ^ y >> 1 ^ (y & 1 ? 0x9908B0DFu : 0u);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 624 && first + k < draws; k += blockDim.x) {
      u32 y = state[k];
      y ^= y >> 11;
      y ^= y << 7 & 0x9D2C5680u;
      y ^= y << 15 & 0xEFC60000u;
      out[blockIdx.x * draws + first + k] = y ^ y >> 18;
    }
    __syncthreads();
  }
}

extern "C" __global__ void monte_carlo_pi(u64 seed, u32* inside, int draws) {
  INDEX;
  u64 state = seed + i * 0x9E3779B97F4A7C15ull;
  u32 hits = 0;
  for (int k = 0; k < draws; k++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    u64 x = state >> 48;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    u64 y = state >> 48;
    hits += x * x + y * y < 4294967296ull;
  }
  for (int mask = 16; mask > 0; mask /= 2) hits += __shfl_xor_sync(0xFFFFFFFFu, hits, mask);
  if (threadIdx.x % 32 == 0) atomicAdd(inside, hits);
}

extern "C" __global__ void box_muller(const float2* uniform, float2* normal, int n) {
  INDEX;
  if (i >= n) return;
  float radius = sqrtf(-2.0f * logf(uniform[i].x)), s, c;
  sincospif(2.0f * uniform[i].y, &s, &c);
  normal[i] = make_float2(radius * c, radius * s);
}
