// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// The reciprocal square root in double precision, in whose approximation the ISA leaves every bit to the device.

extern "C" __global__ void rsqrt_f64(const double* a, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = rsqrt(a[i]);
}
