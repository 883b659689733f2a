// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm.h"

#include "runtime/cpu/gemm_providers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <new>
#include <numeric>
#include <utility>

namespace stepfuse::runtime {

namespace {

/// One product of the self-test, odd enough to reach every edge.
struct Probe {
  int64_t m, n, k;
  bool trans_a, trans_b, symmetric;
};

// The first is all edges; the second passes every register tile; the third reaches the library's blocked kernels.
constexpr std::array<Probe, 6> kProbes = {{{5, 7, 3, true, false, false},
                                           {67, 129, 65, false, true, false},
                                           {300, 200, 260, false, false, false},
                                           {67, 67, 65, false, true, true},
                                           {260, 260, 196, true, false, true},
                                           {136, 136, 136, false, false, true}}};

/// Multiples of 1/8 between -2 and 2: exact in bf16, so that every type multiplies the same numbers.
class ProbeNumbers {
 public:
  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (static_cast<float>(state_ >> 59) - 16) / 8;
  }

 private:
  uint64_t state_ = 1;
};

/// `values` as a library takes them: in f32 where they are, in another type in a buffer of their own.
class Encoded {
 public:
  Encoded(const std::vector<float>& values, ir::DType dtype) : data_(values.data()) {
    if (dtype == ir::DType::F64) encode<double>(values, [](float x) { return static_cast<double>(x); });
    if (dtype == ir::DType::BF16)
      encode<uint16_t>(values, [](float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); });
  }
  const void* data() const { return data_; }

 private:
  template <class Element, class Convert>
  void encode(const std::vector<float>& values, Convert convert) {
    bytes_.resize(values.size() * sizeof(Element));
    std::transform(values.begin(), values.end(), reinterpret_cast<Element*>(bytes_.data()), convert);
    data_ = bytes_.data();
  }

  std::vector<std::byte> bytes_;
  const void* data_;
};

/// A rows x columns matrix of probe numbers; a symmetric one when asked.
std::vector<float> probe_matrix(ProbeNumbers& numbers, int64_t rows, int64_t columns, bool symmetric) {
  std::vector<float> matrix(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const bool mirrored = symmetric && j < i;
      matrix[static_cast<size_t>(i * columns + j)] =
          mirrored ? matrix[static_cast<size_t>(j * columns + i)] : numbers.next();
    }
  }
  return matrix;
}

constexpr double kAlpha = 0.75, kBeta = -1.25;  // short, so that everything below stays exact

GemmShape probe_shape(const Probe& probe, ir::DType ab) {
  GemmShape shape;
  shape.m = probe.m;
  shape.n = probe.n;
  shape.k = probe.k;
  shape.trans_a = probe.trans_a;
  shape.trans_b = probe.trans_b;
  shape.lda = probe.trans_a ? probe.m : probe.k;
  shape.ldb = probe.trans_b ? probe.k : probe.n;
  shape.ldc = shape.ldd = probe.n;
  shape.ab = ab;
  shape.c = shape.d = ir::math_dtype(ab);
  shape.has_c = shape.has_alpha = true;
  shape.symmetric = shape.a_is_b = probe.symmetric;
  return shape;
}

/// The operands of a probe, the same numbers for every type, and what D must give when it is multiplied by `weights`.
struct ProbeCase {
  Probe probe;
  std::vector<float> a, b, c;   // b is empty where it is a
  std::vector<double> weights;  // n small whole numbers, none of them 0
  std::vector<double> want;     // m: (alpha * op(A) * op(B) + beta * C) * weights
};

/// The sum of row[j] * x[j], in lanes that a compiler can keep in one register.
template <class Element>
double weighted_sum(const Element* row, const std::vector<double>& x) {
  std::array<double, 8> lanes{};
  size_t j = 0;
  for (; j + lanes.size() <= x.size(); j += lanes.size())
    for (size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] += static_cast<double>(row[j + lane]) * x[j + lane];
  double sum = std::accumulate(lanes.begin(), lanes.end(), 0.0);
  for (; j < x.size(); ++j) sum += static_cast<double>(row[j]) * x[j];
  return sum;
}

/// matrix * x of a rows x x.size() matrix.
template <class Element>
std::vector<double> times(const Element* matrix, int64_t rows, const std::vector<double>& x) {
  std::vector<double> y(static_cast<size_t>(rows));
  for (size_t i = 0; i < y.size(); ++i) y[i] = weighted_sum(matrix + i * x.size(), x);
  return y;
}

/// matrix^T * x of a x.size() x columns matrix.
std::vector<double> transposed_times(const float* matrix, int64_t columns, const std::vector<double>& x) {
  std::vector<double> y(static_cast<size_t>(columns));
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < y.size(); ++j) y[j] += static_cast<double>(matrix[i * y.size() + j]) * x[i];
  return y;
}

/// op(matrix) * x, where op(matrix) has that many rows.
std::vector<double> op_times(const std::vector<float>& matrix, int64_t rows, bool transposed,
                             const std::vector<double>& x) {
  return transposed ? transposed_times(matrix.data(), rows, x) : times(matrix.data(), rows, x);
}

std::vector<double> make_weights(int64_t count) {
  std::vector<double> weights(static_cast<size_t>(count));
  for (size_t j = 0; j < weights.size(); ++j) weights[j] = static_cast<double>(j * j % 13 + 1) * (j % 3 == 1 ? -1 : 1);
  return weights;
}

ProbeCase make_case(const Probe& probe) {
  const GemmShape shape = probe_shape(probe, ir::DType::F64);
  ProbeNumbers numbers;
  const bool square = probe.symmetric && probe.trans_a == probe.trans_b;  // A * A is symmetric only if A is
  ProbeCase made{probe, {}, {}, {}, make_weights(probe.n), {}};
  made.a = probe_matrix(numbers, shape.trans_a ? shape.k : shape.m, shape.lda, square);
  if (!shape.a_is_b) made.b = probe_matrix(numbers, shape.trans_b ? shape.n : shape.k, shape.ldb, false);
  made.c = probe_matrix(numbers, shape.m, shape.n, probe.symmetric);
  const auto inner = op_times(shape.a_is_b ? made.a : made.b, shape.k, shape.trans_b, made.weights);
  const auto product = op_times(made.a, shape.m, shape.trans_a, inner);
  const auto added = op_times(made.c, shape.m, false, made.weights);
  for (size_t i = 0; i < product.size(); ++i) made.want.push_back(kAlpha * product[i] + kBeta * added[i]);
  return made;
}

std::vector<ProbeCase> make_cases() {
  std::vector<ProbeCase> cases;
  for (const Probe& probe : kProbes) cases.push_back(make_case(probe));
  return cases;
}

/// Every number here is exact, whatever the order of its sums: elements are multiples of 1/256 below 2^16, so f32 holds
/// them, and their weighted sums are multiples of 1/256 below 2^31, so f64 holds those. A row with one wrong element
/// therefore differs, however small the error; the test costs n^2 where a loop over the product would cost n^3.
Outcome compare(const GemmShape& shape, const ProbeCase& test, const std::byte* d) {
  const std::vector<double> got = shape.d == ir::DType::F64
                                      ? times(reinterpret_cast<const double*>(d), shape.m, test.weights)
                                      : times(reinterpret_cast<const float*>(d), shape.m, test.weights);
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == test.want[i]) continue;
    return fail(StatusCode::Failed, "self-test {} {}x{}x{}{}: row {} is wrong, its weighted sum is {} instead of {}",
                ir::dtype_name(shape.ab), shape.m, shape.n, shape.k, shape.symmetric ? " symmetric" : "", i, got[i],
                test.want[i]);
  }
  return {};
}

Outcome run_case(const GemmProvider& provider, const ProbeCase& test, ir::DType ab) {
  const GemmShape shape = probe_shape(test.probe, ab);
  STEPFUSE_ASSIGN(const std::unique_ptr<Gemm> gemm, provider.prepare(shape));
  if (gemm == nullptr)
    return fail(StatusCode::Failed, "no {} product of {}x{}x{}", ir::dtype_name(ab), shape.m, shape.n, shape.k);
  const Encoded a(test.a, ab), b(test.b, ab), c(test.c, shape.c);
  std::vector<std::byte> d(test.c.size() * static_cast<size_t>(ir::dtype_bytes(shape.d)));
  const std::unique_ptr<std::byte[], void (*)(std::byte*)> scratch(
      new (std::align_val_t{64}) std::byte[gemm->scratch_bytes() + 1],
      [](std::byte* p) { ::operator delete[](p, std::align_val_t{64}); });
  const GemmArgs args{a.data(), shape.a_is_b ? a.data() : b.data(), c.data(), d.data(), kAlpha, kBeta};
  for (int piece = 0; piece < gemm->pieces(); ++piece) gemm->run(args, piece, scratch.get());
  return compare(shape, test, d.data());
}

Outcome run_cases(const GemmProvider& provider, const std::vector<ProbeCase>& cases, ir::DType ab) {
  for (const ProbeCase& test : cases) STEPFUSE_TRY(run_case(provider, test, ab));
  return {};
}

const std::vector<ProbeCase>& all_cases() {
  static const std::vector<ProbeCase> cases = make_cases();
  return cases;
}

/// A provider with the types it multiplied rightly, or the reason why there is none.
struct Tested {
  std::unique_ptr<GemmProvider> provider;
  ProviderReport report;
};

Tested probe_provider(std::string_view name, Result<std::unique_ptr<GemmProvider>> made,
                      std::initializer_list<ir::DType> dtypes) {
  if (!made) return {nullptr, {name, false, made.error().message}};
  for (const ir::DType dtype : dtypes) {
    if (const Outcome tested = run_cases(**made, all_cases(), dtype); !tested)
      return {nullptr, {name, false, tested.error().message}};
  }
  return {std::move(*made), {name, true, {}}};
}

CpuTarget host() { return host_cpu_target(read_cpuid()); }

// Each is tested when it is first asked for: a warm start should not wait for products that its plan has not.
const Tested& tested_chain() {
  static const Tested tested =
      probe_provider("fma-chain", make_fma_chain_provider(host()), {ir::DType::F32, ir::DType::F64});
  return tested;
}

const Tested& tested_openblas_f32() {
  static const Tested tested = probe_provider("openblas", make_openblas_provider(), {ir::DType::F32});
  return tested;
}

const Tested& tested_openblas_f64() {
  static const Tested tested = probe_provider("openblas", make_openblas_provider(), {ir::DType::F64});
  return tested;
}

const Tested& tested_onednn() {
  static const Tested tested = probe_provider("onednn", make_onednn_provider(host()), {ir::DType::BF16});
  return tested;
}

}  // namespace

Outcome check_gemm_shape(const GemmShape& s) {
  const bool extents = s.m >= 0 && s.n >= 0 && s.k >= 0;
  const bool strides = s.lda >= (s.trans_a ? s.m : s.k) && s.ldb >= (s.trans_b ? s.k : s.n) && s.ldd >= s.n &&
                       (!s.has_c || s.ldc >= s.n);
  const bool flags = (!s.symmetric || s.m == s.n) && (!s.c_is_d || (s.has_c && s.c == s.d && s.ldc == s.ldd));
  if (extents && strides && flags) return {};
  return fail(StatusCode::InvalidArgument, "no product of {}x{}x{} with row strides {}, {}, {}, {}{}{}", s.m, s.n, s.k,
              s.lda, s.ldb, s.ldc, s.ldd, s.symmetric ? ", symmetric" : "", s.c_is_d ? ", in place" : "");
}

Outcome self_test(const GemmProvider& provider, ir::DType ab) { return run_cases(provider, make_cases(), ab); }

const GemmProviders& GemmProviders::get() {
  static const GemmProviders instance;
  return instance;
}

const GemmProvider* GemmProviders::fma_chain() const { return tested_chain().provider.get(); }

const GemmProvider* GemmProviders::library(ir::DType dtype) const {
  if (dtype == ir::DType::BF16) return tested_onednn().provider.get();
  if (dtype != ir::DType::F32 && dtype != ir::DType::F64) return nullptr;
  const Tested& openblas = dtype == ir::DType::F32 ? tested_openblas_f32() : tested_openblas_f64();
  return openblas.provider != nullptr ? openblas.provider.get() : fma_chain();
}

std::vector<ProviderReport> GemmProviders::reports() const {
  const ProviderReport& f32 = tested_openblas_f32().report;
  return {tested_chain().report, f32.usable ? tested_openblas_f64().report : f32, tested_onednn().report};
}

}  // namespace stepfuse::runtime
