// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/values.h"

#include <algorithm>
#include <complex>
#include <numbers>
#include <numeric>

namespace stepfuse::vgpu::corpus {
namespace {

using std::size_t;

void matrix_vector(Device& device) {
  const int rows = 13, columns = 150;
  const std::vector<float> a = device.integers<float>(rows * columns, -99, 99),
                           x = device.integers<float>(columns, -99, 99);
  const Array<float> y = device.allocate<float>(rows);
  device.launch("matrix_vector", {4}, {128}, {device.upload(a), device.upload(x), y, rows, columns});
  std::vector<float> expected(rows);
  for (size_t i = 0; i < a.size(); i++) expected[i / columns] += a[i] * x[i % columns];
  expect_same(device.download(y), expected);
}

void sparse_rows(Device& device) {
  const int rows = 200, columns = 90;
  const std::vector<double> x = device.integers<double>(columns, -99, 99);
  std::vector<int> starts{0}, places;
  std::vector<double> values, expected;
  for (int row = 0; row < rows; row++) {
    double sum = 0;
    for (int k = static_cast<int>(device.integer(0, 9)); k > 0; k--) {
      places.push_back(static_cast<int>(device.integer(0, columns - 1)));
      values.push_back(static_cast<double>(device.integer(-99, 99)));
      sum += values.back() * x[static_cast<size_t>(places.back())];
    }
    starts.push_back(static_cast<int>(places.size()));
    expected.push_back(sum);
  }
  const Array<double> y = device.allocate<double>(rows);
  device.launch("sparse_rows", {2}, {128},
                {device.upload(starts), device.upload(places), device.upload(values), device.upload(x), y, rows});
  expect_near(device.download(y), expected, 0);
}

/// A linear function satisfies the discrete equation exactly: f = 0 leaves it as it is, up to rounding.
void jacobi(Device& device) {
  const int width = 30, height = 21;
  const double a = device.real(-1, 1), b = device.real(-1, 1);
  std::vector<double> field;
  for (int i = 0; i < width * height; i++) field.push_back(a * (i % width) + b * (i / width));
  const Array<double> out = device.allocate<double>(field.size());
  const Array<double> f = device.upload(std::vector<double>(field.size(), 0.0));
  device.launch("jacobi", {4, 3}, {8, 8}, {device.upload(field), out, f, width, height});
  expect_near(device.download(out), field, 1e-14, 1e-14);
}

/// The factors are multiplied again.
void lu_factor(Device& device) {
  const size_t n = 20;
  std::vector<double> a = device.reals<double>(n * n, -1, 1), product(n * n);
  for (size_t k = 0; k < n; k++) a[k * n + k] += 20;  // no pivots needed
  const Array<double> array = device.upload(a);
  device.launch("lu_factor", {1}, {32}, {array, static_cast<int>(n)}, n * n * sizeof(double));
  const std::vector<double> lu = device.download(array);
  for (size_t r = 0; r < n; r++) {
    for (size_t c = 0; c < n; c++) {
      for (size_t k = 0; k <= std::min(r, c); k++) product[r * n + c] += (k == r ? 1 : lu[r * n + k]) * lu[k * n + c];
    }
  }
  expect_near(product, a, 1e-13, 1e-13);
}

void cholesky(Device& device) {
  const size_t n = 18;
  const std::vector<float> root = device.reals<float>(n * n, -1, 1);
  std::vector<float> a(n * n), product(n * n);
  for (size_t i = 0; i < n * n; i++) {
    for (size_t k = 0; k < n; k++) a[i] += root[i / n * n + k] * root[i % n * n + k];
    if (i / n == i % n) a[i] += 2;
  }
  const Array<float> array = device.upload(a);
  device.launch("cholesky", {1}, {32}, {array, static_cast<int>(n)}, n * n * sizeof(float));
  const std::vector<float> l = device.download(array);
  for (size_t i = 0; i < n * n; i++) {
    for (size_t k = 0; k < n; k++) product[i] += l[i / n * n + k] * l[i % n * n + k];
  }
  expect_near(product, a, 1e-5, 1e-5);
}

void fft(Device& device) {
  const size_t log_size = 6, size = 1 << log_size, blocks = 2;
  const std::vector<float> in = device.reals<float>(2 * size * blocks, -1, 1);
  const Array<float> array = device.upload(in);
  device.launch("fft", {blocks}, {32}, {array, static_cast<int>(log_size)}, size * 8);
  std::vector<double> expected;
  for (size_t block = 0; block < blocks; block++) {
    for (size_t k = 0; k < size; k++) {
      std::complex<double> sum = 0;
      for (size_t j = 0; j < size; j++) {
        const std::complex<double> x(in[2 * (block * size + j)], in[2 * (block * size + j) + 1]);
        sum +=
            x * std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(j * k % size) / static_cast<double>(size));
      }
      expected.push_back(sum.real());
      expected.push_back(sum.imag());
    }
  }
  expect_near(device.download(array), expected, 0, 1e-5);
}

uint64_t power_modulo(uint64_t base, uint64_t exponent, uint64_t prime) {
  uint64_t result = 1;
  for (; exponent != 0; exponent /= 2, base = base * base % prime)
    result = exponent % 2 == 1 ? result * base % prime : result;
  return result;
}

/// The same transform by its definition, modulo the prime 119 * 2^23 + 1, of which 3 is a primitive root.
void number_theoretic_transform(Device& device) {
  const size_t log_size = 6, size = 1 << log_size;
  const uint64_t prime = 998244353, root = power_modulo(3, (prime - 1) / size, prime);
  const std::vector<uint32_t> in = device.integers<uint32_t>(size, 0, prime - 1);
  const Array<uint32_t> array = device.upload(in);
  device.launch("number_theoretic_transform", {1}, {32},
                {array, static_cast<int>(log_size), static_cast<uint32_t>(root)}, size * 4);
  std::vector<uint32_t> expected;
  for (size_t k = 0; k < size; k++) {
    uint64_t sum = 0;
    for (size_t j = 0; j < size; j++) sum = (sum + in[j] * power_modulo(root, j * k, prime)) % prime;
    expected.push_back(static_cast<uint32_t>(sum));
  }
  expect_same(device.download(array), expected);
}

/// Bellman and Ford's relaxations as the other way to shortest paths.
void floyd_warshall(Device& device) {
  const size_t n = 24;
  const int far = 1000000;
  std::vector<int> weights(n * n);
  for (size_t i = 0; i < n * n; i++) {
    weights[i] = i / n == i % n ? 0 : device.integer(0, 3) == 0 ? static_cast<int>(device.integer(1, 99)) : far;
  }
  const Array<int> array = device.upload(weights);
  device.launch("floyd_warshall", {1}, {64}, {array, static_cast<int>(n)});
  std::vector<int> expected = weights;
  for (size_t round = 0; round < n; round++) {
    for (size_t i = 0; i < n * n; i++) {
      for (size_t k = 0; k < n; k++) {
        expected[i] = std::min(expected[i], expected[i / n * n + k] + weights[k * n + i % n]);
      }
    }
  }
  expect_same(device.download(array), expected);
}

void black_scholes(Device& device) {
  const int n = 300;
  const std::vector<float> price = device.reals<float>(n, 5, 30), strike = device.reals<float>(n, 10, 40),
                           years = device.reals<float>(n, 0.25, 10);
  const Array<float> call = device.allocate<float>(n), put = device.allocate<float>(n);
  device.launch("black_scholes", {3}, {128},
                {device.upload(price), device.upload(strike), device.upload(years), 0.02f, 0.3f, call, put, n});
  const auto normal = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  std::vector<double> expected_call, expected_put;
  for (size_t i = 0; i < n; i++) {
    const double s = double{price[i]}, k = double{strike[i]}, t = double{years[i]}, deviation = 0.3 * std::sqrt(t);
    const double d1 = (std::log(s / k) + (0.02 + 0.045) * t) / deviation, discounted = k * std::exp(-0.02 * t);
    expected_call.push_back(s * normal(d1) - discounted * normal(d1 - deviation));
    expected_put.push_back(expected_call.back() + discounted - s);  // put-call parity
  }
  expect_near(device.download(call), expected_call, 1e-4, 1e-4);
  expect_near(device.download(put), expected_put, 1e-4, 1e-4);
}

void newton_roots(Device& device) {
  const int n = 200;
  const std::vector<double> a = device.reals<double>(n, 1e-3, 1e6);
  const Array<double> roots = device.allocate<double>(n);
  device.launch("newton_roots", {2}, {128}, {device.upload(a), roots, n});
  std::vector<double> expected;
  for (const double x : a) expected.push_back(std::cbrt(x));
  expect_near(device.download(roots), expected, 1e-14);
}

void horner_complex(Device& device) {
  const int n = 200;
  const std::vector<float> points = device.integers<float>(2 * n, -5, 5);
  const Array<float> out = device.allocate<float>(2 * n);
  device.launch("horner_complex", {2}, {128}, {device.upload(points), out, n});
  std::vector<float> expected;
  for (size_t i = 0; i < n; i++) {
    std::complex<double> z(points[2 * i], points[2 * i + 1]), power = 1, sum = 0;
    for (int k = 0; k < 6; k++, power *= z) sum += static_cast<double>(k) * power;
    expected.push_back(static_cast<float>(sum.real()));
    expected.push_back(static_cast<float>(sum.imag()));
  }
  expect_near(device.download(out), expected, 0);
}

/// The midpoint rule for 4 / (1 + x^2) on 0..1 is off by less than 1 / (6 steps^2).
void polynomial_integral(Device& device) {
  const int steps = 4000;
  const Array<double> out = device.allocate<double>(1);
  device.launch("polynomial_integral", {1}, {128}, {out, steps});
  EXPECT_NEAR(device.download(out)[0], std::numbers::pi, 1.0 / (6.0 * steps * steps));
}

/// The iteration makes every singular value one: what comes out is orthogonal.
void newton_schulz(Device& device) {
  const size_t n = 12;
  std::vector<float> in(n * n), gram(n * n), identity(n * n);
  for (size_t k = 0; k < n; k++) in[k * n + (k * 5 + 3) % n] = static_cast<float>(device.real(0.4, 1.2));
  for (float& x : in) x += static_cast<float>(device.real(-0.02, 0.02));
  const Array<float> out = device.allocate<float>(n * n);
  device.launch("newton_schulz", {1}, {64}, {device.upload(in), out, static_cast<int>(n), 12}, 3 * n * n * 4);
  const std::vector<float> q = device.download(out);
  for (size_t i = 0; i < n * n; i++) {
    for (size_t k = 0; k < n; k++) gram[i] += q[i / n * n + k] * q[i % n * n + k];
    identity[i] = i / n == i % n ? 1 : 0;
  }
  expect_near(gram, identity, 0, 1e-5);
}

}  // namespace

Cases linear_algebra_cases() {
  const std::vector<std::pair<std::string, void (*)(Device&)>> programs{
      {"matrix_vector", matrix_vector},
      {"sparse_rows", sparse_rows},
      {"jacobi", jacobi},
      {"lu_factor", lu_factor},
      {"cholesky", cholesky},
      {"fft", fft},
      {"number_theoretic_transform", number_theoretic_transform},
      {"floyd_warshall", floyd_warshall},
      {"black_scholes", black_scholes},
      {"newton_roots", newton_roots},
      {"horner_complex", horner_complex},
      {"polynomial_integral", polynomial_integral},
      {"newton_schulz", newton_schulz},
  };
  Cases all;
  for (const auto& [kernel, run] : programs) all.push_back({"linear", kernel, run});
  return all;
}

}  // namespace stepfuse::vgpu::corpus
