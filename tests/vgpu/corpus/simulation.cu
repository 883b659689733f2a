// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Simulations on grids and of particles.

typedef unsigned int u32;

extern "C" __global__ void game_of_life(const unsigned char* in, unsigned char* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int neighbours = 0;
  for (int dy = -1; dy <= 1; dy++) {
    for (int dx = -1; dx <= 1; dx++) {
      if (dx == 0 && dy == 0) continue;
      neighbours += in[(y + dy + height) % height * width + (x + dx + width) % width];
    }
  }
  out[y * width + x] = neighbours == 3 || (neighbours == 2 && in[y * width + x]);
}

// 32 cells to a word.
extern "C" __global__ void rule_110(u32* words, int steps) {
  extern __shared__ u32 cells[];
  int t = threadIdx.x, n = blockDim.x;
  u32 mine = words[t];
  for (int step = 0; step < steps; step++) {
    cells[t] = mine;
    __syncthreads();
    u32 left = __funnelshift_l(cells[(t + n - 1) % n], mine, 1), right = __funnelshift_r(mine, cells[(t + 1) % n], 1);
    __syncthreads();
    mine = (mine ^ right) | (mine & ~left);
  }
  words[t] = mine;
}

extern "C" __global__ void n_body(const float4* bodies, float4* accelerations, int n) {
  __shared__ float4 tile[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 me = i < n ? bodies[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float3 sum = make_float3(0.0f, 0.0f, 0.0f);
  for (int first = 0; first < n; first += 64) {
    tile[threadIdx.x] = first + threadIdx.x < n ? bodies[first + threadIdx.x] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < 64; k++) {
      float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
      float factor = tile[k].w * inverse * inverse * inverse;
      sum.x += dx * factor, sum.y += dy * factor, sum.z += dz * factor;
    }
    __syncthreads();
  }
  if (i < n) accelerations[i] = make_float4(sum.x, sum.y, sum.z, 0.0f);
}

extern "C" __global__ void heat_3d(const float* in, float* out, int size, float rate) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= size - 1 || y >= size - 1) return;
  int slice = size * size, i = slice + y * size + x;
  float below = in[i - slice], here = in[i];
  for (int z = 1; z < size - 1; z++, i += slice) {
    float above = in[i + slice];
    float around = in[i - 1] + in[i + 1] + in[i - size] + in[i + size] + below + above;
    out[i] = here + rate * (around - 6.0f * here);
    below = here;
    here = above;
  }
}

extern "C" __global__ void wave_1d(const double* before, const double* now, double* next, int n, double c2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double left = i > 0 ? now[i - 1] : 0.0, right = i < n - 1 ? now[i + 1] : 0.0;
  next[i] = 2.0 * now[i] - before[i] + c2 * (left - 2.0 * now[i] + right);
}

extern "C" __global__ void sandpile(int* grid, int size, int rounds) {
  extern __shared__ int sand[];
  int n = size * size;
  for (int k = threadIdx.x; k < n; k += blockDim.x) sand[k] = grid[k];
  __syncthreads();
  for (int round = 0; round < rounds; round++) {
    int gains[4];
    for (int slot = 0, k = threadIdx.x; k < n; k += blockDim.x, slot++) {
      int x = k % size, y = k / size;
      gains[slot] = (x > 0 && sand[k - 1] > 3) + (x < size - 1 && sand[k + 1] > 3) + (y > 0 && sand[k - size] > 3) +
                    (y < size - 1 && sand[k + size] > 3) - (sand[k] > 3 ? 4 : 0);
    }
    __syncthreads();
    bool moved = false;
    for (int slot = 0, k = threadIdx.x; k < n; k += blockDim.x, slot++) {
      sand[k] += gains[slot];
      moved |= gains[slot] != 0;
    }
    if (!__syncthreads_or(moved)) break;
  }
  for (int k = threadIdx.x; k < n; k += blockDim.x) grid[k] = sand[k];
}

extern "C" __global__ void breadth_first(const int* starts, const int* edges, int* levels, int* changed, int level,
                                         int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || levels[i] != level) return;
  for (int k = starts[i]; k < starts[i + 1]; k++) {
    if (atomicCAS(&levels[edges[k]], -1, level + 1) == -1) *changed = 1;
  }
}

extern "C" __global__ void components(const int* a, const int* b, int* labels, int* changed, int edges) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= edges) return;
  int x = atomicAdd(&labels[a[i]], 0), y = atomicAdd(&labels[b[i]], 0);
  if (x == y) return;
  atomicMin(&labels[a[i]], min(x, y));
  atomicMin(&labels[b[i]], min(x, y));
  atomicExch(changed, 1);
}

extern "C" __global__ void k_means_assign(const float2* points, const float2* centres, int* labels, float* sums,
                                          int* counts, int n, int k) {
  extern __shared__ float2 staged[];
  for (int c = threadIdx.x; c < k; c += blockDim.x) staged[c] = centres[c];
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 p = points[i];
  int best = 0;
  float nearest = 3e38f;
  for (int c = 0; c < k; c++) {
    float dx = p.x - staged[c].x, dy = p.y - staged[c].y, distance = dx * dx + dy * dy;
    if (distance < nearest) nearest = distance, best = c;
  }
  labels[i] = best;
  atomicAdd(&sums[2 * best], p.x);
  atomicAdd(&sums[2 * best + 1], p.y);
  atomicAdd(&counts[best], 1);
}

extern "C" __global__ void ray_spheres(const float4* spheres, int count, unsigned char* image, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  // Rays along z through whole-numbered points: all arithmetic is exact.
  float nearest = -1e30f;
  int hit = 0;
  for (int k = 0; k < count; k++) {
    float dx = x - spheres[k].x, dy = y - spheres[k].y, rest = spheres[k].w * spheres[k].w - dx * dx - dy * dy;
    if (rest > 0.0f && spheres[k].z > nearest) nearest = spheres[k].z, hit = k + 1;
  }
  image[y * width + x] = (unsigned char)hit;
}

extern "C" __global__ void sobel(const unsigned char* in, short* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int value[3][3];
#pragma unroll
  for (int j = 0; j < 3; j++) {
#pragma unroll
    for (int i = 0; i < 3; i++) {
      int u = min(max(x + i - 1, 0), width - 1), v = min(max(y + j - 1, 0), height - 1);
      value[j][i] = in[v * width + u];
    }
  }
  int gx = value[0][2] + 2 * value[1][2] + value[2][2] - value[0][0] - 2 * value[1][0] - value[2][0];
  int gy = value[2][0] + 2 * value[2][1] + value[2][2] - value[0][0] - 2 * value[0][1] - value[0][2];
  out[y * width + x] = short(abs(gx) + abs(gy));
}

extern "C" __global__ void median_3x3(const unsigned char* in, unsigned char* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= width - 1 || y >= height - 1) return;
  unsigned char v[9];
  for (int k = 0; k < 9; k++) v[k] = in[(y + k / 3 - 1) * width + x + k % 3 - 1];
  for (int a = 1; a < 9; a++) {
    unsigned char key = v[a];
    int b = a - 1;
    for (; b >= 0 && v[b] > key; b--) v[b + 1] = v[b];
    v[b + 1] = key;
  }
  out[(y - 1) * (width - 2) + x - 1] = v[4];
}
