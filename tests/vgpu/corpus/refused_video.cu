// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Four bytes in one register, by a video instruction.

extern "C" __global__ void vabsdiffu4(const unsigned* a, const unsigned* b, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __vabsdiffu4(a[i], b[i]);
}
