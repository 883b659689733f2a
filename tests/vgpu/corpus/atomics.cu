// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Atomics: the final state whatever the order, and the old values where they tell something.

typedef unsigned int u32;
typedef unsigned long long u64;

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x

extern "C" __global__ void add_int(const int* in, int* out, int bins) {
  INDEX;
  atomicAdd(&out[i % bins], in[i]);
}

extern "C" __global__ void add_u64(const u64* in, u64* out, int bins) {
  INDEX;
  atomicAdd(&out[i % bins], in[i]);
}

extern "C" __global__ void add_float(const float* in, float* out, int bins) {
  INDEX;
  atomicAdd(&out[i % bins], in[i]);
}

extern "C" __global__ void add_double(const double* in, double* out, int bins) {
  INDEX;
  atomicAdd(&out[i % bins], in[i]);
}

extern "C" __global__ void add_float_returned(const float* in, float* out, float* old) {
  INDEX;
  old[i] = atomicAdd(out, in[i]);
}

extern "C" __global__ void sub_int(const int* in, int* out, int bins) {
  INDEX;
  atomicSub(&out[i % bins], in[i]);
}

extern "C" __global__ void min_max_int(const int* in, int* out) {
  INDEX;
  atomicMin(&out[0], in[i]);
  atomicMax(&out[1], in[i]);
}

extern "C" __global__ void min_max_u32(const u32* in, u32* out) {
  INDEX;
  atomicMin(&out[0], in[i]);
  atomicMax(&out[1], in[i]);
}

extern "C" __global__ void min_max_s64(const long long* in, long long* out) {
  INDEX;
  atomicMin(&out[0], in[i]);
  atomicMax(&out[1], in[i]);
}

extern "C" __global__ void min_max_u64(const u64* in, u64* out) {
  INDEX;
  atomicMin(&out[0], in[i]);
  atomicMax(&out[1], in[i]);
}

extern "C" __global__ void logic_u32(const u32* in, u32* out) {
  INDEX;
  atomicAnd(&out[0], in[i] | 0xFF00FF00u);
  atomicOr(&out[1], in[i] & 0x00F00F00u);
  atomicXor(&out[2], in[i]);
}

extern "C" __global__ void logic_u64(const u64* in, u64* out) {
  INDEX;
  atomicAnd(&out[0], in[i] | 0xFF00FF00FF00FF00ull);
  atomicOr(&out[1], in[i] & 0x00F00F00F00F0000ull);
  atomicXor(&out[2], in[i]);
}

// Each value goes in and comes out exactly once.
extern "C" __global__ void exchange(int* slot, int* old) {
  INDEX;
  old[i] = atomicExch(slot, i + 1);
}

extern "C" __global__ void exchange_u64(u64* slot, u64* old) {
  INDEX;
  old[i] = atomicExch(slot, u64(i + 1) << 32);
}

extern "C" __global__ void increment(u32* counter, u32* old, u32 limit) {
  INDEX;
  old[i] = atomicInc(counter, limit);
}

extern "C" __global__ void decrement(u32* counter, u32* old, u32 limit) {
  INDEX;
  old[i] = atomicDec(counter, limit);
}

extern "C" __global__ void compare_and_swap_max(const float* in, u32* out) {
  INDEX;
  u32 seen = *out;
  while (__uint_as_float(seen) < in[i]) {
    u32 before = atomicCAS(out, seen, __float_as_uint(in[i]));
    if (before == seen) break;
    seen = before;
  }
}

extern "C" __global__ void compare_and_swap_product(const double* in, u64* out) {
  INDEX;
  u64 seen = *out, assumed;
  do {
    assumed = seen;
    seen = atomicCAS(out, assumed, u64(__double_as_longlong(__longlong_as_double(assumed) * in[i])));
  } while (assumed != seen);
}

extern "C" __global__ void compare_and_swap_u16(unsigned short* claims, int* winner_count, int slots) {
  INDEX;
  if (atomicCAS(&claims[i % slots], (unsigned short)0xFFFF, (unsigned short)i) == 0xFFFF) atomicAdd(winner_count, 1);
}

// A lock around an update that no single atomic does.
extern "C" __global__ void spin_lock(int* lock, volatile int* sum, volatile int* count, const int* in) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    *sum = *sum + in[blockIdx.x];
    *count = *count + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}

extern "C" __global__ void shared_atomics(const int* in, int* out) {
  __shared__ int sum, smallest, largest;
  __shared__ u32 bits;
  __shared__ float total;
  __shared__ u64 wide;
  INDEX;
  if (threadIdx.x == 0) sum = 0, smallest = 0x7FFFFFFF, largest = -0x7FFFFFFF, bits = 0, total = 0.0f, wide = 0;
  __syncthreads();
  atomicAdd(&sum, in[i]);
  atomicMin(&smallest, in[i]);
  atomicMax(&largest, in[i]);
  atomicOr(&bits, 1u << (in[i] & 31));
  atomicAdd(&total, float(in[i]));
  atomicAdd(&wide, u64(in[i]));
  __syncthreads();
  if (threadIdx.x != 0) return;
  int* mine = out + 6 * blockIdx.x;
  mine[0] = sum, mine[1] = smallest, mine[2] = largest, mine[3] = int(bits), mine[4] = int(total), mine[5] = int(wide);
}

extern "C" __global__ void scoped_atomics(int* out) {
  atomicAdd_block(&out[blockIdx.x], 1);
  atomicAdd_system(&out[gridDim.x], 2);
  atomicMax_block(&out[gridDim.x + 1 + blockIdx.x], int(threadIdx.x));
}

extern "C" __global__ void ordered_atomics(int* out, int* flag, int* seen) {
  int old;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = 100 + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");
  } else {
    if (threadIdx.x == 0) {
      do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(old) : "l"(flag) : "memory");
      while (old == 0);
    }
    __syncthreads();
    seen[(blockIdx.x - 1) * blockDim.x + threadIdx.x] = out[threadIdx.x];
  }
}

extern "C" __global__ void append(const int* in, int* out, int* count, int n) {
  INDEX;
  if (i < n && in[i] % 2 == 0) out[atomicAdd(count, 1)] = in[i];
}
