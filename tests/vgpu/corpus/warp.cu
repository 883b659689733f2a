// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Lanes of a warp that talk to each other.

typedef unsigned int u32;
typedef unsigned long long u64;

const u32 everyone = 0xFFFFFFFFu;

extern "C" __global__ void shuffle_down_sum(const float* in, float* out) {
  float value = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(everyone, value, distance);
  if (threadIdx.x % 32 == 0) out[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = value;
}

extern "C" __global__ void shuffle_xor_maximum(const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = in[i];
  for (int mask = 1; mask < 32; mask *= 2) value = max(value, __shfl_xor_sync(everyone, value, mask));
  out[i] = value;
}

extern "C" __global__ void shuffle_up_scan(const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  int value = in[i];
  for (int distance = 1; distance < 32; distance *= 2) {
    int other = __shfl_up_sync(everyone, value, distance);
    if (lane >= distance) value += other;
  }
  out[i] = value;
}

extern "C" __global__ void shuffle_index(const int* in, const int* source, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = __shfl_sync(everyone, in[i], source[i]);
}

extern "C" __global__ void shuffle_widths(const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = in[i];
  out[4 * i] = __shfl_sync(everyone, value, i * 5, 8);
  out[4 * i + 1] = __shfl_up_sync(everyone, value, 3, 16);
  out[4 * i + 2] = __shfl_down_sync(everyone, value, 2, 4);
  out[4 * i + 3] = __shfl_xor_sync(everyone, value, 6, 8);
}

extern "C" __global__ void shuffle_wide_types(const double* a, const u64* b, double* out_a, u64* out_b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out_a[i] = __shfl_xor_sync(everyone, a[i], 31);
  out_b[i] = __shfl_down_sync(everyone, b[i], 1);
}

extern "C" __global__ void shuffle_predicate(const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value, inside;
  asm volatile(
      "{\n\t"
      ".reg .pred p;\n\t"
      "shfl.sync.down.b32 %0|p, %2, 5, 31, 0xffffffff;\n\t"
      "selp.s32 %1, 1, 0, p;\n\t"
      "}"
      : "=r"(value), "=r"(inside)
      : "r"(in[i]));
  out[i] = 2 * value + inside;
}

extern "C" __global__ void votes(const int* in, u32* ballots, int* flags) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  ballots[i] = __ballot_sync(everyone, in[i] > 0);
  flags[i] = (__any_sync(everyone, in[i] > 95) != 0) | (__all_sync(everyone, in[i] > -95) != 0) << 1;
}

extern "C" __global__ void vote_uniform(const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, uniform;
  asm volatile(
      "{\n\t"
      ".reg .pred p, q;\n\t"
      "setp.gt.s32 p, %1, 0;\n\t"
      "vote.sync.uni.pred q, p, 0xffffffff;\n\t"
      "selp.s32 %0, 1, 0, q;\n\t"
      "}"
      : "=r"(uniform)
      : "r"(in[i]));
  out[i] = uniform;
}

extern "C" __global__ void match_any(const int* in, u32* out, const u64* wide, u32* out_wide) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = __match_any_sync(everyone, in[i]);
  out_wide[i] = __match_any_sync(everyone, wide[i]);
}

extern "C" __global__ void match_all(const int* in, u32* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, same;
  u32 mask = __match_all_sync(everyone, in[i], &same);
  out[i] = same ? mask : 0x1234u + (mask & 1u);
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void reduce_sync(const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int* mine = out + 7 * i;
  mine[0] = __reduce_add_sync(everyone, in[i]);
  mine[1] = __reduce_min_sync(everyone, in[i]);
  mine[2] = __reduce_max_sync(everyone, in[i]);
  mine[3] = int(__reduce_max_sync(everyone, u32(in[i])));
  mine[4] = int(__reduce_and_sync(everyone, u32(in[i])));
  mine[5] = int(__reduce_or_sync(everyone, u32(in[i])));
  mine[6] = int(__reduce_xor_sync(everyone, u32(in[i])));
}
#endif

// Odd and even lanes come to shuffles of their own masks through different branches.
extern "C" __global__ void divergent_shuffles(const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = in[i];
  if (i % 2 == 0) {
    for (int mask = 2; mask < 32; mask *= 2) value += __shfl_xor_sync(0x55555555u, value, mask);
  } else {
    for (int mask = 2; mask < 32; mask *= 2) value = max(value, __shfl_xor_sync(0xAAAAAAAAu, value, mask));
  }
  out[i] = value;
}

// All lanes take part in one shuffle from two places of the program (from sm_70 on the mask is what counts).
extern "C" __global__ void shuffle_from_two_places(const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = in[i], got;
  if (threadIdx.x % 4 < 2) {
    value = value * 3 + 1;
    got = __shfl_xor_sync(everyone, value, 2);
  } else {
    value = value - 7;
    got = __shfl_xor_sync(everyone, value, 2) + 1;
  }
  out[i] = got;
}

extern "C" __global__ void partial_warp(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  u32 present = __ballot_sync(everyone, i < n);
  if (i >= n) return;
  int leader = __ffs(present) - 1, last = 31 - __clz(present);
  out[i] = __shfl_sync(present, in[i], leader) + __shfl_sync(present, in[i], last);
}

// One atomic per warp for all lanes that have something to add.
extern "C" __global__ void aggregated_filter(const int* in, int* out, int* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  bool keep = i < n && in[i] > 0;
  u32 keeping = __ballot_sync(everyone, keep);
  if (keeping == 0) return;
  int leader = __ffs(keeping) - 1, base = 0;
  if (lane == leader) base = atomicAdd(count, __popc(keeping));
  base = __shfl_sync(everyone, base, leader);
  if (keep) out[base + __popc(keeping & ((1u << lane) - 1))] = in[i];
}

extern "C" __global__ void active_mask(u32* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  u32 mask = __activemask();
  // Which lanes are together is the machine's choice; each is there itself, and no lane that never ran.
  out[i] = (mask >> (threadIdx.x % 32)) & 1;
}

extern "C" __global__ void lane_masks(u32* out) {
  u32 lt, le, eq, ge, gt;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
  asm("mov.u32 %0, %%lanemask_le;" : "=r"(le));
  asm("mov.u32 %0, %%lanemask_eq;" : "=r"(eq));
  asm("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
  asm("mov.u32 %0, %%lanemask_gt;" : "=r"(gt));
  u32* mine = out + 5 * (blockIdx.x * blockDim.x + threadIdx.x);
  mine[0] = lt, mine[1] = le, mine[2] = eq, mine[3] = ge, mine[4] = gt;
}

// Data passes through shared memory inside a warp, with __syncwarp alone.
extern "C" __global__ void warp_synchronous(const int* in, int* out) {
  __shared__ volatile int values[4][32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = blockIdx.x * blockDim.x + threadIdx.x;
  values[warp][lane] = in[i];
  __syncwarp();
  for (int half = 16; half > 0; half /= 2) {
    int other = lane < half ? values[warp][lane + half] : 0;
    __syncwarp();
    if (lane < half) values[warp][lane] = values[warp][lane] + other;
    __syncwarp();
  }
  out[i] = values[warp][0];
}

extern "C" __global__ void warp_bitonic_sort(const int* in, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  int value = in[i];
  for (int size = 2; size <= 32; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      int other = __shfl_xor_sync(everyone, value, stride);
      bool up = (lane & size) == 0, lower = (lane & stride) == 0;
      value = up == lower ? min(value, other) : max(value, other);
    }
  }
  out[i] = value;
}

extern "C" __global__ void bit_transpose(const u32* in, u32* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  u32 row = in[i], column = 0;
  for (int bit = 0; bit < 32; bit++) {
    u32 ballot = __ballot_sync(everyone, (row >> bit) & 1);
    if (lane == bit) column = ballot;
  }
  out[i] = column;
}

// A sum per run of equal keys that lie side by side.
extern "C" __global__ void segmented_sum(const int* keys, const int* values, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  int key = keys[i], value = values[i];
  for (int distance = 1; distance < 32; distance *= 2) {
    int other_key = __shfl_up_sync(everyone, key, distance), other = __shfl_up_sync(everyone, value, distance);
    if (lane >= distance && other_key == key) value += other;
  }
  out[i] = value;
}
