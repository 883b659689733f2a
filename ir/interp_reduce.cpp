// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/interp_value.h"

#include <algorithm>
#include <cmath>

namespace stepfuse::ir {

namespace {

constexpr int64_t kChunkElements = 4096;
constexpr size_t kLaneCount = 64;

/// One result's elements: `count` of them from `first`, `stride` apart.
struct Group {
  int64_t first, count, stride;
};

/// Lanes of one chunk, added by halves.
template <class T>
T add_lanes(std::array<T, kLaneCount>& lanes) {
  for (size_t half = kLaneCount / 2; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

/// Neighbours added until one is left; an odd last one moves up unchanged.
template <class T>
T add_pairwise(std::vector<T> partials) {
  if (partials.empty()) return T(0);
  while (partials.size() > 1) {
    const size_t pairs = partials.size() / 2;
    for (size_t i = 0; i < pairs; ++i) partials[i] = partials[2 * i] + partials[2 * i + 1];
    if (partials.size() % 2 != 0) partials[pairs] = partials.back();
    partials.resize((partials.size() + 1) / 2);
  }
  return partials[0];
}

/// The canonical sum: chunks of 4096 elements, 64 lanes that start at +0, lanes by halves, chunks pairwise.
/// `accumulate(lane, element)` gives the lane's new value.
template <class T, class Source, class Accumulate>
T canonical_sum(const Source* data, const Group& group, Accumulate accumulate) {
  std::vector<T> partials;
  for (int64_t begin = 0; begin < group.count; begin += kChunkElements) {
    std::array<T, kLaneCount> lanes{};
    const int64_t length = std::min(kChunkElements, group.count - begin);
    const Source* at = data + group.first + begin * group.stride;
    for (int64_t i = 0; i < length; ++i, at += group.stride) {
      T& lane = lanes[static_cast<size_t>(i) % kLaneCount];
      lane = accumulate(lane, *at);
    }
    partials.push_back(add_lanes(lanes));
  }
  return add_pairwise(std::move(partials));
}

template <class T>
T largest_magnitude(const T* data, const Group& group) {
  T largest = 0;
  for (int64_t i = 0; i < group.count; ++i) {
    const T magnitude = std::fabs(data[group.first + i * group.stride]);
    if (std::isnan(magnitude)) return magnitude;
    largest = std::max(largest, magnitude);
  }
  return largest;
}

std::vector<Group> groups_of(const Dims3& dims, Axis axis) {
  const int64_t batch = dims[0], rows = dims[1], cols = dims[2];
  std::vector<Group> groups;
  if (axis == Axis::All) groups.push_back({0, elements_of(dims), 1});
  if (axis == Axis::Matrix)
    for (int64_t i = 0; i < batch; ++i) groups.push_back({i * rows * cols, rows * cols, 1});
  if (axis == Axis::Rows)
    for (int64_t i = 0; i < batch * rows; ++i) groups.push_back({i * cols, cols, 1});
  if (axis == Axis::Cols)
    for (int64_t i = 0; i < batch; ++i)
      for (int64_t j = 0; j < cols; ++j) groups.push_back({i * rows * cols + j, rows, cols});
  return groups;
}

/// Calls `reduce` for each group and stores the results, computed in T.
template <class T, class Reduce>
void reduce_groups(OpCall& call, Evaluation evaluation, Reduce reduce) {
  std::vector<T> out;
  for (const Group& group : groups_of(call.args[0]->dims, std::get<ReduceAttr>(call.node.attr).axis))
    out.push_back(reduce(group));
  store(call.result, std::move(out), evaluation);
}

/// Sums of squares and norms accumulate in f64, whatever the element type.
void run_squares(OpCall& call, Evaluation evaluation) {
  const bool root = call.node.op == Op::Norm;
  std::visit(
      [&](const auto& elements) {
        const auto square = [](double lane, auto element) {
          const auto wide = static_cast<double>(element);
          return std::fma(wide, wide, lane);
        };
        reduce_groups<double>(call, evaluation, [&](const Group& group) {
          const double sum = canonical_sum<double>(elements.data(), group, square);
          return root ? std::sqrt(sum) : sum;
        });
      },
      call.args[0]->data);
}

template <class T>
void run_in_math_type(OpCall& call, Evaluation evaluation) {
  const Elements<T> elements(*call.args[0]);
  if (call.node.op == Op::Sum) {
    const auto add = [](T lane, T element) { return lane + element; };
    reduce_groups<T>(call, evaluation, [&](const Group& g) { return canonical_sum<T>(elements.data(), g, add); });
  } else {
    // Any is the largest of zeros and ones.
    reduce_groups<T>(call, evaluation, [&](const Group& g) { return largest_magnitude(elements.data(), g); });
  }
}

}  // namespace

void run_reduce(OpCall& call, Evaluation evaluation) {
  if (call.node.op == Op::SumSq || call.node.op == Op::Norm) {
    run_squares(call, evaluation);
  } else if (call.math == DType::F64) {
    run_in_math_type<double>(call, evaluation);
  } else {
    run_in_math_type<float>(call, evaluation);
  }
}

}  // namespace stepfuse::ir
