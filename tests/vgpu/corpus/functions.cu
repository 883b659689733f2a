// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Functions that are really called: structures in and out, lambdas, templates.

struct Vector {
  float x, y, z;
};

struct Matrix {
  Vector rows[3];
};

struct Pair {
  long long key;
  int value;
  char tag;
};

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x

__device__ __noinline__ int add_three(int a, int b, int c) { return a + b * 2 + c * 3; }

extern "C" __global__ void plain_call(const int* in, int* out, int n) {
  INDEX;
  if (i < n) out[i] = add_three(in[i], i, add_three(1, in[i], 2));
}

__device__ __noinline__ Vector cross(Vector a, Vector b) {
  return {__fadd_rn(__fmul_rn(a.y, b.z), -__fmul_rn(a.z, b.y)), __fadd_rn(__fmul_rn(a.z, b.x), -__fmul_rn(a.x, b.z)),
          __fadd_rn(__fmul_rn(a.x, b.y), -__fmul_rn(a.y, b.x))};
}

extern "C" __global__ void structure_call(const Vector* a, const Vector* b, Vector* out, int n) {
  INDEX;
  if (i < n) out[i] = cross(a[i], b[i]);
}

__device__ __noinline__ Matrix multiply(const Matrix& a, const Matrix& b) {
  Matrix result;
  const float* left = &a.rows[0].x;
  const float* right = &b.rows[0].x;
  float* sums = &result.rows[0].x;
  for (int r = 0; r < 3; r++) {
    for (int c = 0; c < 3; c++) {
      sums[3 * r + c] = left[3 * r] * right[c] + left[3 * r + 1] * right[3 + c] + left[3 * r + 2] * right[6 + c];
    }
  }
  return result;
}

extern "C" __global__ void matrix_power(const Matrix* in, Matrix* out, int n, int exponent) {
  INDEX;
  if (i >= n) return;
  Matrix base = in[i], result = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = multiply(result, base);
    base = multiply(base, base);
  }
  out[i] = result;
}

__device__ __noinline__ Pair next(Pair pair) {
  pair.key = pair.key * 6364136223846793005ll + 1442695040888963407ll;
  pair.value ^= int(pair.key >> 33);
  pair.tag += 1;
  return pair;
}

extern "C" __global__ void wide_structure_call(const Pair* in, Pair* out, int n) {
  INDEX;
  if (i >= n) return;
  Pair pair = in[i];
  for (int k = 0; k < 3; k++) pair = next(pair);
  out[i] = pair;
}

__device__ __noinline__ void divide_with_rest(int a, int b, int* quotient, int* rest) {
  *quotient = a / b;
  *rest = a % b;
}

extern "C" __global__ void results_by_pointer(const int* in, int* out, int n) {
  INDEX;
  if (i >= n) return;
  int quotient, rest;
  divide_with_rest(in[i], 7, &quotient, &rest);
  out[2 * i] = quotient;
  divide_with_rest(quotient, 5, &quotient, &out[2 * i + 1]);
  out[2 * i + 1] += 10 * rest + 1000 * quotient;
}

template <class Function>
__device__ __noinline__ float integrate(Function function, float from, float to, int steps) {
  float sum = 0.0f, width = (to - from) / steps;
  for (int k = 0; k < steps; k++) sum += function(from + width * (k + 0.5f));
  return sum * width;
}

// The midpoint rule is exact for straight lines.
extern "C" __global__ void lambda_call(const float* slope, float* out, int n) {
  INDEX;
  if (i >= n) return;
  float m = slope[i];
  out[i] = integrate([m](float x) { return m * x + 1.0f; }, 0.0f, 4.0f, 16);
}

template <int n>
struct Factorial {
  static const unsigned long long value = n * Factorial<n - 1>::value;
};
template <>
struct Factorial<0> {
  static const unsigned long long value = 1;
};

template <class T, int... terms>
__device__ T polynomial(T x) {
  T sum = 0;
  ((sum = sum * x + terms), ...);
  return sum;
}

extern "C" __global__ void templates(const int* in, long long* out, int n) {
  INDEX;
  if (i < n) out[i] = polynomial<long long, 3, -2, 7, 11>(in[i]) + Factorial<15>::value;
}

__device__ __noinline__ float shuffled(float value, int lane) { return __shfl_sync(0xFFFFFFFFu, value, lane); }

extern "C" __global__ void shuffle_in_function(const float* in, float* out) {
  INDEX;
  out[i] = shuffled(in[i], 31 - threadIdx.x % 32) + shuffled(in[i], 3);
}

__device__ __noinline__ int barrier_in_function(int* shared, int value) {
  shared[threadIdx.x] = value;
  __syncthreads();
  int got = shared[(threadIdx.x + 33) % blockDim.x];
  __syncthreads();
  return got;
}

extern "C" __global__ void barriers_in_functions(const int* in, int* out) {
  __shared__ int staged[128];
  INDEX;
  out[i] = barrier_in_function(staged, barrier_in_function(staged, in[i]) + 1);
}
