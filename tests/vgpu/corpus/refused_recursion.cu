// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// A function that calls itself.

typedef unsigned int u32;

__device__ __noinline__ u32 ackermann(u32 m, u32 n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

extern "C" __global__ void recursion(u32* out) { out[threadIdx.x] = ackermann(threadIdx.x / 4, threadIdx.x % 4); }
