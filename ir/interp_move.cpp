// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/interp_value.h"

#include <algorithm>

namespace stepfuse::ir {

namespace {

template <class T>
std::vector<T> transposed(const std::vector<T>& in, const Dims3& dims) {
  std::vector<T> out(in.size());
  const auto rows = static_cast<size_t>(dims[1]), cols = static_cast<size_t>(dims[2]);
  const size_t matrix = rows * cols;
  for (size_t batch = 0; batch < static_cast<size_t>(dims[0]); ++batch)
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < cols; ++j) out[batch * matrix + j * rows + i] = in[batch * matrix + i * cols + j];
  return out;
}

/// Extents before, along and after one dimension.
struct Along {
  int64_t outer = 1, extent = 1, inner = 1;
  Along(const Dims3& dims, size_t dim) : extent(dims[dim]) {
    for (size_t i = 0; i < dim; ++i) outer *= dims[i];
    for (size_t i = dim + 1; i < dims.size(); ++i) inner *= dims[i];
  }
};

template <class T>
void copy_range(std::vector<T>& out, const std::vector<T>& in, int64_t from, int64_t count) {
  const auto begin = in.begin() + from;
  out.insert(out.end(), begin, begin + count);
}

template <class T>
std::vector<T> sliced(const std::vector<T>& in, const Along& along, const SliceAttr& slice) {
  std::vector<T> out;
  for (int64_t i = 0; i < along.outer; ++i)
    copy_range(out, in, (i * along.extent + slice.begin) * along.inner, (slice.end - slice.begin) * along.inner);
  return out;
}

template <class T>
std::vector<T> joined(const std::vector<T>& a, const std::vector<T>& b, const Along& along_a, const Along& along_b) {
  std::vector<T> out;
  const int64_t run_a = along_a.extent * along_a.inner, run_b = along_b.extent * along_b.inner;
  for (int64_t i = 0; i < along_a.outer; ++i) {
    copy_range(out, a, i * run_a, run_a);
    copy_range(out, b, i * run_b, run_b);
  }
  return out;
}

/// Position in Dims3 of dimension `dim` of a tensor of this rank.
size_t aligned(uint8_t dim, uint8_t rank) { return static_cast<size_t>(kMaxRank - rank + dim); }

template <class T>
std::vector<T> moved(const OpCall& call, const std::vector<T>& in) {
  const Array& a = *call.args[0];
  if (call.node.op == Op::Transpose) return transposed(in, a.dims);
  if (const auto* slice = std::get_if<SliceAttr>(&call.node.attr))
    return sliced(in, Along(a.dims, aligned(slice->dim, a.rank)), *slice);
  const size_t dim = aligned(std::get<ConcatAttr>(call.node.attr).dim, a.rank);
  const Array& b = *call.args[1];
  return joined(in, std::get<std::vector<T>>(b.data), Along(a.dims, dim), Along(b.dims, dim));
}

template <class T>
void add_diagonal(OpCall& call, Evaluation evaluation) {
  const Elements<T> a(*call.args[0]);
  const T s = Elements<T>(*call.args[1])[0];
  std::vector<T> out(a.data(), a.data() + elements_of(call.result.dims));
  const auto side = static_cast<size_t>(call.result.dims[1]);
  for (size_t first = 0; first < out.size(); first += side * side)
    for (size_t i = 0; i < side; ++i) out[first + i * side + i] += s;
  store(call.result, std::move(out), evaluation);
}

}  // namespace

void run_move(OpCall& call, Evaluation evaluation) {
  if (call.node.op == Op::AddDiag) {
    call.math == DType::F64 ? add_diagonal<double>(call, evaluation) : add_diagonal<float>(call, evaluation);
    return;
  }
  std::visit([&](const auto& in) { call.result.data = moved(call, in); }, call.args[0]->data);
}

}  // namespace stepfuse::ir
