// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/interp_decompose.h"
#include "ir/interp_value.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stepfuse::ir {

namespace {

Matrix decompose(Op op, const Matrix& a) {
  if (op == Op::Eigh) return eigh(a);
  return op == Op::Svd ? svd(a) : qr(a);
}

bool all_finite(const double* begin, size_t count) {
  return std::all_of(begin, begin + count, [](double x) { return std::isfinite(x); });
}

std::vector<double> decomposed(const OpCall& call, const Elements<double>& a) {
  const Dims3& from = call.args[0]->dims;
  const Dims3& to = call.result.dims;
  const auto rows = static_cast<size_t>(from[1]), cols = static_cast<size_t>(from[2]);
  const auto size = static_cast<size_t>(to[1] * to[2]);
  std::vector<double> out;
  for (size_t batch = 0; batch < static_cast<size_t>(from[0]); ++batch) {
    const double* matrix = a.data() + batch * rows * cols;
    if (!all_finite(matrix, rows * cols)) {
      out.insert(out.end(), size, std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    Matrix in(rows, cols);
    std::copy(matrix, matrix + rows * cols, in.data.begin());
    const Matrix result = decompose(call.node.op, in);
    out.insert(out.end(), result.data.begin(), result.data.end());
  }
  return out;
}

std::vector<double> sorted(const OpCall& call, const Elements<double>& a) {
  const Elements<double> keys(*call.args[1]);
  const Dims3& dims = call.result.dims;
  const auto rows = static_cast<size_t>(dims[1]), cols = static_cast<size_t>(dims[2]);
  std::vector<double> out(static_cast<size_t>(elements_of(dims)));
  for (size_t batch = 0; batch < static_cast<size_t>(dims[0]); ++batch) {
    const std::vector<size_t> order = descending({keys.data() + batch * cols, cols});
    const size_t first = batch * rows * cols;
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < cols; ++j) out[first + i * cols + j] = a[first + i * cols + order[j]];
  }
  return out;
}

}  // namespace

void run_library(OpCall& call, Evaluation evaluation) {
  const Elements<double> a(*call.args[0]);
  if (call.node.op == Op::SortCols) return store(call.result, sorted(call, a), evaluation);
  const bool wanted = call.args.size() < 2 || Elements<double>(*call.args[1])[0] != 0;
  store(call.result,
        wanted ? decomposed(call, a) : std::vector<double>(static_cast<size_t>(elements_of(call.result.dims))),
        evaluation);
}

}  // namespace stepfuse::ir
