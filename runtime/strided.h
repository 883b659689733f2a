// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/layout.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace stepfuse::runtime {

/// A tensor in memory; `strides` as compiler::check_strides accepts them.
struct StridedTensor {
  std::byte* data = nullptr;
  std::vector<int64_t> shape;
  compiler::Strides strides;
  int64_t element_bytes = 0;

  int64_t dense_bytes() const;
};

/// Visits the runs of neighbouring bytes in row-major order of their elements: where each begins, from `data`, and its
/// length.
void for_each_run(const StridedTensor& tensor, const std::function<void(int64_t offset, int64_t bytes)>& visit);

/// Copies the elements out, in row-major order. `dense` has dense_bytes().
void gather(const StridedTensor& tensor, std::byte* dense);
/// Copies them in; nothing between the elements is touched.
void scatter(const std::byte* dense, const StridedTensor& tensor);
/// Sets every element to +0.
void clear(const StridedTensor& tensor);

}  // namespace stepfuse::runtime
