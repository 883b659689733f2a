// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stepfuse::test {

/// A value of any element type is exact in a double. One rounding, to nearest even, from a double: plain arithmetic on
/// powers of two, unlike anything that generated code does.
double round_to(double value, ir::DType dtype);

/// Elements of one type in memory.
class Buffer {
 public:
  Buffer(ir::DType dtype, int64_t elements);
  ir::DType dtype() const { return dtype_; }
  int64_t size() const { return elements_; }
  double get(int64_t index) const;
  void set(int64_t index, double value);  // rounds once
  void* data() { return bytes_.data(); }

 private:
  ir::DType dtype_;
  int64_t elements_;
  std::vector<unsigned char> bytes_;
};

/// A phase ready to run: what KernelCall needs, owned.
struct Launch {
  std::array<int64_t, 3> dims{1, 1, 1};
  std::vector<Buffer> args;
  std::vector<std::array<int64_t, 3>> strides;
  std::vector<double> scalars;
  std::vector<std::vector<double>> partials;
};

/// Dense row-major arguments (extent 1 where one does not vary) with awkward values, partials of the right size, and
/// scalars 0.3, 0.6, ... . Equal seeds give equal values.
Launch make_launch(const codegen::KernelSpec& spec, std::array<int64_t, 3> dims, uint64_t seed);

/// Runs a compiled kernel in tasks of `task` chunks (Linear), rows or columns, the last task first.
void run_kernel(codegen::KernelFn function, const codegen::KernelSpec& spec, Launch& launch, int64_t task);

/// The same by definition: one position after the other, one scalar operation at a time.
void run_model(const codegen::KernelSpec& spec, Launch& launch);

/// Empty when both hold the same bits (any NaN equals any NaN), else the first difference.
std::string difference(const Launch& got, const Launch& want);

}  // namespace stepfuse::test
