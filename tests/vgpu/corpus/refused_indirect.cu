// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// Calls whose target is only known when they run: tables of functions and virtual functions.

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x

__device__ int plus(int a, int b) { return a + b; }
__device__ int minus(int a, int b) { return a - b; }
__device__ int times(int a, int b) { return a * b; }
__device__ int bigger(int a, int b) { return a > b ? a : b; }

typedef int (*Operation)(int, int);
__device__ Operation operations[4] = {plus, minus, times, bigger};

extern "C" __global__ void function_table(const int* in, int* out, int n) {
  INDEX;
  if (i < n) out[i] = operations[in[i] & 3](in[i], i);
}

struct Shape {
  __device__ virtual int area() const = 0;
  __device__ virtual ~Shape() {}
};

struct Square : Shape {
  int side;
  __device__ explicit Square(int side) : side(side) {}
  __device__ int area() const override { return side * side; }
};

struct Box : Shape {
  int width, height;
  __device__ Box(int width, int height) : width(width), height(height) {}
  __device__ int area() const override { return width * height; }
};

__device__ __noinline__ int measure(const Shape& shape) { return shape.area() + 1; }

extern "C" __global__ void virtual_call(const int* in, int* out, int n) {
  INDEX;
  if (i >= n) return;
  Square square(in[i]);
  Box box(in[i], i);
  const Shape* shape = in[i] % 2 == 0 ? static_cast<const Shape*>(&square) : &box;
  out[i] = measure(*shape);
}
