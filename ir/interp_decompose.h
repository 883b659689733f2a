// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace stepfuse::ir {

/// A row-major matrix of doubles.
struct Matrix {
  size_t rows = 0, cols = 0;
  std::vector<double> data;

  Matrix(size_t r, size_t c) : rows(r), cols(c), data(r * c, 0.0) {}
  double& at(size_t i, size_t j) { return data[i * cols + j]; }
  double at(size_t i, size_t j) const { return data[i * cols + j]; }
};

// Decompositions for the interpreter, as the textbooks have them; what they give is laid out as ops.def says. The
// elements must be finite. An iteration that does not converge gives NaN.

/// Cyclic Jacobi rotations.
Matrix eigh(const Matrix& a);
/// One-sided Jacobi rotations.
Matrix svd(const Matrix& a);
/// Householder reflections.
Matrix qr(const Matrix& a);

/// The places of `keys` in descending order; stable, NaN first.
std::vector<size_t> descending(std::span<const double> keys);

}  // namespace stepfuse::ir
