// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/strided.h"

#include <cstring>
#include <numeric>

namespace stepfuse::runtime {

namespace {

/// Elements of equal distance.
struct Line {
  std::byte* first;
  int64_t count;
  int64_t step;  // bytes
};

/// Visits the elements in row-major order, line by line.
template <class Visit>
void for_each_line(const StridedTensor& tensor, Visit visit) {
  if (tensor.dense_bytes() == 0) return;
  compiler::Dimensions all = compiler::coalesce(tensor.shape, {tensor.strides});
  if (all.extents.empty()) return visit(Line{tensor.data, 1, tensor.element_bytes});
  const int64_t count = all.extents.back();
  const int64_t step = all.strides[0].back() * tensor.element_bytes;
  all.extents.pop_back();
  std::vector<int64_t> at(all.extents.size(), 0);
  int64_t offset = 0;
  while (true) {
    visit(Line{tensor.data + offset * tensor.element_bytes, count, step});
    size_t d = at.size();
    while (d > 0 && at[d - 1] + 1 == all.extents[d - 1]) {
      --d;
      offset -= at[d] * all.strides[0][d];
      at[d] = 0;
    }
    if (d == 0) return;
    ++at[d - 1];
    offset += all.strides[0][d - 1];
  }
}

}  // namespace

int64_t StridedTensor::dense_bytes() const {
  return std::accumulate(shape.begin(), shape.end(), element_bytes, std::multiplies<>());
}

void for_each_run(const StridedTensor& tensor, const std::function<void(int64_t offset, int64_t bytes)>& visit) {
  for_each_line(tensor, [&](const Line& line) {
    const int64_t first = line.first - tensor.data;
    if (line.step == tensor.element_bytes) return visit(first, line.count * tensor.element_bytes);
    for (int64_t i = 0; i < line.count; ++i) visit(first + i * line.step, tensor.element_bytes);
  });
}

void gather(const StridedTensor& tensor, std::byte* dense) {
  const auto bytes = static_cast<size_t>(tensor.element_bytes);
  for_each_line(tensor, [&](const Line& line) {
    const size_t total = static_cast<size_t>(line.count) * bytes;
    if (line.step == tensor.element_bytes) {
      std::memcpy(dense, line.first, total);
    } else {
      for (int64_t i = 0; i < line.count; ++i)
        std::memcpy(dense + i * tensor.element_bytes, line.first + i * line.step, bytes);
    }
    dense += total;
  });
}

void scatter(const std::byte* dense, const StridedTensor& tensor) {
  const auto bytes = static_cast<size_t>(tensor.element_bytes);
  for_each_line(tensor, [&](const Line& line) {
    const size_t total = static_cast<size_t>(line.count) * bytes;
    if (line.step == tensor.element_bytes) {
      std::memcpy(line.first, dense, total);
    } else {
      for (int64_t i = 0; i < line.count; ++i)
        std::memcpy(line.first + i * line.step, dense + i * tensor.element_bytes, bytes);
    }
    dense += total;
  });
}

void clear(const StridedTensor& tensor) {
  const auto bytes = static_cast<size_t>(tensor.element_bytes);
  for_each_line(tensor, [&](const Line& line) {
    if (line.step == tensor.element_bytes) {
      std::memset(line.first, 0, static_cast<size_t>(line.count) * bytes);
      return;
    }
    for (int64_t i = 0; i < line.count; ++i) std::memset(line.first + i * line.step, 0, bytes);
  });
}

}  // namespace stepfuse::runtime
