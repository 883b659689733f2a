// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Linear algebra and numerical programs.

typedef unsigned int u32;

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x

extern "C" __global__ void matrix_vector(const float* a, const float* x, float* y, int rows, int columns) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int k = lane; k < columns; k += 32) sum += a[row * columns + k] * x[k];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, d);
  if (lane == 0) y[row] = sum;
}

extern "C" __global__ void sparse_rows(const int* starts, const int* columns, const double* values, const double* x,
                                       double* y, int rows) {
  INDEX;
  if (i >= rows) return;
  double sum = 0.0;
  for (int k = starts[i]; k < starts[i + 1]; k++) sum += values[k] * x[columns[k]];
  y[i] = sum;
}

extern "C" __global__ void jacobi(const double* in, double* out, const double* f, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int i = y * width + x;
  bool inner = x > 0 && y > 0 && x < width - 1 && y < height - 1;
  out[i] = inner ? 0.25 * (in[i - 1] + in[i + 1] + in[i - width] + in[i + width] - f[i]) : in[i];
}

extern "C" __global__ void lu_factor(double* a, int n) {
  extern __shared__ double rows[];
  for (int k = threadIdx.x; k < n * n; k += blockDim.x) rows[k] = a[k];
  __syncthreads();
  for (int k = 0; k < n; k++) {
    for (int r = k + 1 + threadIdx.x; r < n; r += blockDim.x) {
      double factor = rows[r * n + k] / rows[k * n + k];
      rows[r * n + k] = factor;
      for (int c = k + 1; c < n; c++) rows[r * n + c] -= factor * rows[k * n + c];
    }
    __syncthreads();
  }
  for (int k = threadIdx.x; k < n * n; k += blockDim.x) a[k] = rows[k];
}

extern "C" __global__ void cholesky(float* a, int n) {
  extern __shared__ float l[];
  for (int k = threadIdx.x; k < n * n; k += blockDim.x) l[k] = a[k];
  for (int k = 0; k < n; k++) {
    __syncthreads();
    if (threadIdx.x == 0) l[k * n + k] = sqrtf(l[k * n + k]);
    __syncthreads();
    for (int r = k + 1 + threadIdx.x; r < n; r += blockDim.x) l[r * n + k] /= l[k * n + k];
    __syncthreads();
    for (int r = k + 1 + threadIdx.x; r < n; r += blockDim.x) {
      for (int c = k + 1; c <= r; c++) l[r * n + c] -= l[r * n + k] * l[c * n + k];
    }
  }
  __syncthreads();
  for (int k = threadIdx.x; k < n * n; k += blockDim.x) a[k] = k % n <= k / n ? l[k] : 0.0f;
}

// Radix 2, decimation in time, in shared memory.
extern "C" __global__ void fft(float2* values, int log_size) {
  extern __shared__ float2 data[];
  int size = 1 << log_size;
  for (int k = threadIdx.x; k < size; k += blockDim.x)
    data[__brev(k) >> (32 - log_size)] = values[blockIdx.x * size + k];
  __syncthreads();
  for (int half = 1; half < size; half *= 2) {
    for (int k = threadIdx.x; k < size / 2; k += blockDim.x) {
      int low = k / half * 2 * half + k % half;
      float s, c;
      sincospif(-float(k % half) / half, &s, &c);
      float2 a = data[low], b = data[low + half];
      float2 t = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
      data[low] = make_float2(a.x + t.x, a.y + t.y);
      data[low + half] = make_float2(a.x - t.x, a.y - t.y);
    }
    __syncthreads();
  }
  for (int k = threadIdx.x; k < size; k += blockDim.x) values[blockIdx.x * size + k] = data[k];
}

extern "C" __global__ void number_theoretic_transform(u32* values, int log_size, u32 root) {
  const u32 prime = 998244353;
  extern __shared__ u32 residues[];
  int size = 1 << log_size;
  for (int k = threadIdx.x; k < size; k += blockDim.x) residues[__brev(k) >> (32 - log_size)] = values[k];
  __syncthreads();
  for (int half = 1; half < size; half *= 2) {
    for (int k = threadIdx.x; k < size / 2; k += blockDim.x) {
      unsigned long long twiddle = 1, power = root;
      for (u32 e = u32(k % half) * u32(size / (2 * half)); e != 0; e /= 2) {
        if (e & 1) twiddle = twiddle * power % prime;
        power = power * power % prime;
      }
      int low = k / half * 2 * half + k % half;
      u32 a = residues[low], t = u32(residues[low + half] * twiddle % prime);
      residues[low] = a + t >= prime ? a + t - prime : a + t;
      residues[low + half] = a >= t ? a - t : a + prime - t;
    }
    __syncthreads();
  }
  for (int k = threadIdx.x; k < size; k += blockDim.x) values[k] = residues[k];
}

extern "C" __global__ void floyd_warshall(int* distances, int n) {
  for (int k = 0; k < n; k++) {
    for (int c = threadIdx.x; c < n * n; c += blockDim.x) {
      int through = distances[c / n * n + k] + distances[k * n + c % n];
      if (through < distances[c]) distances[c] = through;
    }
    __syncthreads();
  }
}

extern "C" __global__ void black_scholes(const float* price, const float* strike, const float* years, float rate,
                                         float volatility, float* call, float* put, int n) {
  INDEX;
  if (i >= n) return;
  float deviation = volatility * sqrtf(years[i]);
  float d1 = (logf(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) / deviation;
  float d2 = d1 - deviation, discount = expf(-rate * years[i]);
  float n1 = normcdff(d1), n2 = normcdff(d2);
  call[i] = price[i] * n1 - strike[i] * discount * n2;
  put[i] = strike[i] * discount * (1.0f - n2) - price[i] * (1.0f - n1);
}

extern "C" __global__ void newton_roots(const double* coefficients, double* roots, int n) {
  INDEX;
  if (i >= n) return;
  double a = coefficients[i], x = a > 1.0 ? a : 1.0;
  for (int k = 0; k < 200; k++) {
    double next = (2.0 * x + a / (x * x)) / 3.0;
    if (fabs(next - x) <= 1e-15 * fabs(x)) break;
    x = next;
  }
  roots[i] = x;
}

extern "C" __global__ void horner_complex(const float2* points, float2* out, int n) {
  INDEX;
  if (i >= n) return;
  float2 z = points[i], sum = make_float2(0.0f, 0.0f);
  for (int k = 5; k >= 0; k--) sum = make_float2(sum.x * z.x - sum.y * z.y + k, sum.x * z.y + sum.y * z.x);
  out[i] = sum;
}

extern "C" __global__ void polynomial_integral(double* out, int steps) {
  __shared__ double sums[128];
  double sum = 0.0, width = 1.0 / steps;
  for (int k = threadIdx.x; k < steps; k += blockDim.x) {
    double x = (k + 0.5) * width;
    sum += 4.0 / (1.0 + x * x);
  }
  sums[threadIdx.x] = sum * width;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *out = sums[0];
}

extern "C" __global__ void newton_schulz(const float* in, float* out, int n, int steps) {
  extern __shared__ float memory[];
  float *x = memory, *gram = memory + n * n, *next = memory + 2 * n * n;
  for (int k = threadIdx.x; k < n * n; k += blockDim.x) x[k] = in[k];
  __syncthreads();
  for (int step = 0; step < steps; step++) {
    for (int k = threadIdx.x; k < n * n; k += blockDim.x) {
      float sum = 0.0f;
      for (int j = 0; j < n; j++) sum += x[k / n * n + j] * x[k % n * n + j];
      gram[k] = sum;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < n * n; k += blockDim.x) {
      float sum = 0.0f;
      for (int j = 0; j < n; j++) sum += gram[k / n * n + j] * x[j * n + k % n];
      next[k] = 1.5f * x[k] - 0.5f * sum;
    }
    __syncthreads();
    float* swap = x;
    x = next;
    next = swap;
  }
  for (int k = threadIdx.x; k < n * n; k += blockDim.x) out[k] = x[k];
}
