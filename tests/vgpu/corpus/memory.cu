// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Loads and stores of every width, cache hint and state space.

typedef unsigned int u32;
typedef unsigned long long u64;

struct __align__(8) Particle {
  float mass;
  short charge;
  unsigned char kind, flags;
};

struct Mixed {
  char tag;
  double weight;
  short code;
  float3 place;
};

struct Settings {
  float scale;
  int offset;
  double bias;
  unsigned char table[5];
};

__constant__ float coefficients[8] = {1.0f, -2.0f, 3.0f, -4.0f, 5.0f, -6.0f, 7.0f, -8.0f};
__constant__ int lookup[256];
__device__ int counter = 41;
__device__ double grid_sums[4] = {0.5, 1.5, 2.5, 3.5};
__device__ const char message[] = "virtual";
__device__ int* linked = &counter;
__device__ u64 untouched[3];
__device__ Mixed defaults = {'x', 2.25, -3, {1.0f, 2.0f, 3.0f}};

extern "C" __global__ void copy_float4(const float4* in, float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float4 v = in[i];
    out[i] = make_float4(v.w, v.z, v.y, v.x);
  }
}

extern "C" __global__ void add_float2(const float2* a, const float2* b, float2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = make_float2(a[i].x + b[i].x, a[i].y - b[i].y);
}

extern "C" __global__ void copy_uint4_strided(const uint4* __restrict__ in, uint4* __restrict__ out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i];
}

extern "C" __global__ void swap_short2(const short2* in, short2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = make_short2(in[i].y, in[i].x);
}

extern "C" __global__ void rotate_uchar4(const uchar4* in, uchar4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = make_uchar4(in[i].y, in[i].z, in[i].w, in[i].x);
}

extern "C" __global__ void copy_double2(const double2* in, double2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[n - 1 - i];
}

extern "C" __global__ void longlong2_sum(const longlong2* in, long long* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i].x + in[i].y;
}

extern "C" __global__ void copy_float3(const float3* in, float3* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

extern "C" __global__ void update_particles(Particle* particles, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Particle p = particles[i];
  p.mass *= 2.0f;
  p.charge = short(-p.charge);
  p.kind += 1;
  p.flags |= 0x80;
  particles[i] = p;
}

extern "C" __global__ void copy_mixed(const Mixed* in, Mixed* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i].tag = in[i].tag;
  out[i].weight = in[i].weight;
  out[i].code = in[i].code;
  out[i].place = in[i].place;
}

// Words at any byte address, put together from bytes.
extern "C" __global__ void unaligned_words(const unsigned char* bytes, u32* out, int first, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned char* p = bytes + first + 3 * i;
  out[i] = p[0] | p[1] << 8 | p[2] << 16 | u32(p[3]) << 24;
}

extern "C" __global__ void cached_loads(const float* a, const float4* b, const int* c, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 v = __ldg(b + i);
  out[i] = __ldg(a + i) + v.x + v.w + float(__ldcg(c + i)) + __ldca(a + i) + float(__ldcs(c + i)) + __ldcv(a + i);
}

extern "C" __global__ void hinted_stores(float* a, float4* b, int* c, double* d, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __stcg(a + i, float(i));
  __stcs(b + i, make_float4(i, i + 1, i + 2, i + 3));
  __stwt(c + i, -i);
  __stwb(d + i, 0.5 * i);
}

extern "C" __global__ void volatile_and_generic(volatile int* a, int* out, int n) {
  __shared__ int staged[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  staged[threadIdx.x] = 10 * i;
  // Which of the two is only known here: a generic address.
  int* from = i % 3 == 0 ? &staged[threadIdx.x] : &out[i];
  if (i % 3 != 0) out[i] = a[i] + 1;
  out[i] = *from + a[i];
}

extern "C" __global__ void polynomial_from_constants(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int k = 7; k >= 0; k--) sum = __fadd_rn(__fmul_rn(sum, in[i]), coefficients[k]);
  out[i] = sum;
}

extern "C" __global__ void constant_lookup(const unsigned char* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = lookup[in[i]];
}

extern "C" __global__ void module_variables(int* out, double* sums, char* text) {
  out[0] = counter;
  *linked += 1;
  out[1] = counter;
  out[2] = int(untouched[0] + untouched[1] + untouched[2]);
  out[3] = defaults.tag + defaults.code;
  for (int k = 0; k < 4; k++) sums[k] = grid_sums[k] * defaults.weight + defaults.place.z;
  for (int k = 0; k < 8; k++) text[k] = message[k];
}

extern "C" __global__ void settings_by_value(Settings settings, const float* in, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = double(in[i] * settings.scale) + settings.offset + settings.bias + settings.table[i % 5];
}

extern "C" __global__ void parameters_of_every_size(char a, short b, int c, long long d, float e, double f, bool g,
                                                    char3 h, double* out) {
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = double(d);
  out[4] = e;
  out[5] = f;
  out[6] = g;
  out[7] = h.x + 10 * h.y + 100 * h.z;
}

// A local array, indexed by data.
extern "C" __global__ void local_histogram(const unsigned char* in, int* out, int per_thread) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int counts[16];
  for (int k = 0; k < 16; k++) counts[k] = 0;
  for (int k = 0; k < per_thread; k++) counts[in[i * per_thread + k] & 15]++;
  for (int k = 0; k < 16; k++) out[16 * i + k] = counts[k];
}

extern "C" __global__ void local_stack(const int* in, int* out, int per_thread) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int stack[32], top = 0;
  for (int k = 0; k < per_thread; k++) {
    int value = in[i * per_thread + k];
    if (value == 0 && top > 1) {
      int y = stack[--top], x = stack[--top];
      stack[top++] = x - y;
    } else if (top < 32) {
      stack[top++] = value;
    }
  }
  int sum = 0;
  while (top > 0) sum = 31 * sum + stack[--top];
  out[i] = sum;
}

extern "C" __global__ void device_memory_functions(const char* in, char* out, int size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  char staged[24];
  memset(staged, '.', sizeof staged);
  memcpy(staged + 3, in + i * size, 17);
  memcpy(out + i * 24, staged, 24);
}

extern "C" __global__ void three_dimensions(const int* in, int* out, int width, int height, int depth) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x >= width || y >= height || z >= depth) return;
  out[(x * height + y) * depth + z] = in[(z * height + y) * width + x];
}

extern "C" __global__ void saxpy_grid_stride(float a, const float* __restrict__ x, float* __restrict__ y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void gather(const float* in, const int* index, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = index[i] >= 0 ? in[index[i]] : -1.0f;
}

extern "C" __global__ void identify(u32* out) {
  u32 lane, smid;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(smid));
  u32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  u32 at = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[at] = lane | block << 8 | thread << 16 | (smid < 4096u) << 31;
}
