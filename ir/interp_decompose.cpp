// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/interp_decompose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace stepfuse::ir {

namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
// Each sweep squares what is left; ten are plenty for any matrix that fits into memory.
constexpr int kMaxSweeps = 60;

struct Rotation {
  double c, s;
};

/// Makes the off-diagonal element `pq` of the symmetric [[pp, pq], [pq, qq]] zero; the smaller of the two angles.
Rotation annihilate(double pp, double pq, double qq) {
  const double theta = (qq - pp) / (2 * pq);
  const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::hypot(1.0, theta));
  const double c = 1 / std::hypot(1.0, t);
  return {c, t * c};
}

/// Columns p and q of `a`.
void rotate_columns(Matrix& a, size_t p, size_t q, Rotation r) {
  for (size_t i = 0; i < a.rows; ++i) {
    const double x = a.at(i, p), y = a.at(i, q);
    a.at(i, p) = r.c * x - r.s * y;
    a.at(i, q) = r.s * x + r.c * y;
  }
}

void rotate_rows(Matrix& a, size_t p, size_t q, Rotation r) {
  for (size_t j = 0; j < a.cols; ++j) {
    const double x = a.at(p, j), y = a.at(q, j);
    a.at(p, j) = r.c * x - r.s * y;
    a.at(q, j) = r.s * x + r.c * y;
  }
}

Matrix identity(size_t n) {
  Matrix out(n, n);
  for (size_t i = 0; i < n; ++i) out.at(i, i) = 1;
  return out;
}

double largest(const Matrix& a) {
  double most = 0;
  for (const double x : a.data) most = std::max(most, std::abs(x));
  return most;
}

/// Divides by a power of two, which keeps every square within range; returns its exponent.
int scale_down(Matrix& a) {
  int exponent = 0;
  std::frexp(largest(a), &exponent);
  for (double& x : a.data) x = std::ldexp(x, -exponent);
  return exponent;
}

Matrix all_nan(size_t rows, size_t cols) {
  Matrix out(rows, cols);
  std::fill(out.data.begin(), out.data.end(), std::numeric_limits<double>::quiet_NaN());
  return out;
}

double column_dot(const Matrix& a, size_t p, size_t q) {
  double sum = 0;
  for (size_t i = 0; i < a.rows; ++i) sum += a.at(i, p) * a.at(i, q);
  return sum;
}

/// Rotates until all of the symmetric `a` but its diagonal is rounding; false if it does not get there.
bool diagonalise(Matrix& a, Matrix& vectors) {
  const double negligible = kEpsilon * 1e-3 * largest(a);
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool rotated = false;
    for (size_t p = 0; p < a.rows; ++p) {
      for (size_t q = p + 1; q < a.rows; ++q) {
        if (std::abs(a.at(p, q)) <= negligible) continue;
        const Rotation r = annihilate(a.at(p, p), a.at(p, q), a.at(q, q));
        rotate_columns(a, p, q, r);
        rotate_rows(a, p, q, r);
        a.at(p, q) = a.at(q, p) = 0;
        rotate_columns(vectors, p, q, r);
        rotated = true;
      }
    }
    if (!rotated) return true;
  }
  return false;
}

/// Rotates until the columns of `a` are orthogonal to each other, as far as a sum of products can tell; false if it
/// does not get there.
bool orthogonalise_columns(Matrix& a, Matrix& right) {
  const double negligible = kEpsilon * static_cast<double>(a.rows);
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool rotated = false;
    for (size_t p = 0; p < a.cols; ++p) {
      for (size_t q = p + 1; q < a.cols; ++q) {
        const double pp = column_dot(a, p, p), pq = column_dot(a, p, q), qq = column_dot(a, q, q);
        if (std::abs(pq) <= negligible * std::sqrt(pp) * std::sqrt(qq)) continue;
        const Rotation r = annihilate(pp, pq, qq);
        rotate_columns(a, p, q, r);
        rotate_columns(right, p, q, r);
        rotated = true;
      }
    }
    if (!rotated) return true;
  }
  return false;
}

/// A column of length 1 that is orthogonal to the first `done` ones: of the unit vectors, the one that is furthest from
/// them, made orthogonal twice.
void complete(Matrix& u, size_t done) {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < u.rows; ++i) {
    double inside = 0;
    for (size_t j = 0; j < done; ++j) inside += u.at(i, j) * u.at(i, j);
    if (inside >= least) continue;
    least = inside;
    best = i;
  }
  for (size_t i = 0; i < u.rows; ++i) u.at(i, done) = i == best ? 1 : 0;
  for (int pass = 0; pass < 2; ++pass)
    for (size_t j = 0; j < done; ++j) {
      const double along = column_dot(u, j, done);
      for (size_t i = 0; i < u.rows; ++i) u.at(i, done) -= along * u.at(i, j);
    }
  const double length = std::sqrt(column_dot(u, done, done));
  for (size_t i = 0; i < u.rows; ++i) u.at(i, done) /= length;
}

struct Triples {
  Matrix u;  // r x k
  std::vector<double> values;
  Matrix v;  // c x k
};

/// Of a matrix with no more columns than rows, whose columns are orthogonal: U is their directions.
Triples sorted_triples(const Matrix& a, const Matrix& right, int exponent) {
  std::vector<double> lengths(a.cols);
  for (size_t j = 0; j < a.cols; ++j) lengths[j] = std::sqrt(column_dot(a, j, j));
  const std::vector<size_t> order = descending(lengths);
  Triples out{Matrix(a.rows, a.cols), {}, Matrix(right.rows, a.cols)};
  const double negligible = lengths.empty() ? 0 : lengths[order[0]] * kEpsilon * 1e-3;
  for (size_t j = 0; j < a.cols; ++j) {
    const size_t from = order[j];
    out.values.push_back(std::ldexp(lengths[from], exponent));
    for (size_t i = 0; i < right.rows; ++i) out.v.at(i, j) = right.at(i, from);
    if (lengths[from] <= negligible) {
      complete(out.u, j);
      continue;
    }
    for (size_t i = 0; i < a.rows; ++i) out.u.at(i, j) = a.at(i, from) / lengths[from];
  }
  return out;
}

Matrix transposed(const Matrix& a) {
  Matrix out(a.cols, a.rows);
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t j = 0; j < a.cols; ++j) out.at(j, i) = a.at(i, j);
  return out;
}

/// Makes column j zero below its diagonal element. The reflection is I - v v^T, with v in `v` from element j on; v is 0
/// where there is nothing to do.
void reflect(Matrix& a, size_t j, std::vector<double>& v) {
  std::fill(v.begin(), v.end(), 0.0);
  double below = 0;
  for (size_t i = j + 1; i < a.rows; ++i) below = std::hypot(below, a.at(i, j));
  if (below == 0) return;
  const double diagonal = a.at(j, j);
  const double length = std::hypot(diagonal, below);
  v[j] = diagonal + std::copysign(length, diagonal);
  for (size_t i = j + 1; i < a.rows; ++i) v[i] = a.at(i, j);
  const double norm = std::hypot(v[j], below);
  for (double& x : v) x *= std::sqrt(2.0) / norm;
}

void apply(const std::vector<double>& v, Matrix& a) {
  for (size_t j = 0; j < a.cols; ++j) {
    double along = 0;
    for (size_t i = 0; i < a.rows; ++i) along += v[i] * a.at(i, j);
    for (size_t i = 0; i < a.rows; ++i) a.at(i, j) -= along * v[i];
  }
}

}  // namespace

std::vector<size_t> descending(std::span<const double> keys) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    if (std::isnan(keys[i]) || std::isnan(keys[j])) return std::isnan(keys[i]) && !std::isnan(keys[j]);
    return keys[i] > keys[j];
  });
  return order;
}

Matrix eigh(const Matrix& a) {
  const size_t n = a.rows;
  Matrix work(n, n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j <= i; ++j) work.at(i, j) = work.at(j, i) = a.at(i, j);
  const int exponent = scale_down(work);
  Matrix vectors = identity(n);
  if (!diagonalise(work, vectors)) return all_nan(n + 1, n);
  std::vector<double> values(n);
  for (size_t j = 0; j < n; ++j) values[j] = work.at(j, j);
  const std::vector<size_t> order = descending(values);
  Matrix out(n + 1, n);
  for (size_t j = 0; j < n; ++j) {
    const size_t from = order[n - 1 - j];
    for (size_t i = 0; i < n; ++i) out.at(i, j) = vectors.at(i, from);
    out.at(n, j) = std::ldexp(values[from], exponent);
  }
  return out;
}

Matrix svd(const Matrix& a) {
  const bool wide = a.cols > a.rows;
  Matrix work = wide ? transposed(a) : a;
  const int exponent = scale_down(work);
  Matrix right = identity(work.cols);
  Matrix out(a.rows + 1 + a.cols, work.cols);
  if (!orthogonalise_columns(work, right)) return all_nan(out.rows, out.cols);
  const Triples triples = sorted_triples(work, right, exponent);
  const Matrix& u = wide ? triples.v : triples.u;
  const Matrix& v = wide ? triples.u : triples.v;
  for (size_t j = 0; j < out.cols; ++j) {
    for (size_t i = 0; i < a.rows; ++i) out.at(i, j) = u.at(i, j);
    out.at(a.rows, j) = triples.values[j];
    for (size_t i = 0; i < a.cols; ++i) out.at(a.rows + 1 + i, j) = v.at(i, j);
  }
  return out;
}

Matrix qr(const Matrix& a) {
  const size_t count = std::min(a.rows, a.cols);
  Matrix work = a;
  scale_down(work);
  std::vector<std::vector<double>> reflections(count, std::vector<double>(a.rows));
  for (size_t j = 0; j < count; ++j) {
    reflect(work, j, reflections[j]);
    apply(reflections[j], work);
    for (size_t i = j + 1; i < a.rows; ++i) work.at(i, j) = 0;
  }
  Matrix q(a.rows, count);
  for (size_t j = 0; j < count; ++j) q.at(j, j) = 1;
  for (size_t j = count; j-- > 0;) apply(reflections[j], q);
  return q;
}

}  // namespace stepfuse::ir
