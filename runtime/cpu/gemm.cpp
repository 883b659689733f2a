// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm.h"

#include "runtime/cpu/gemm_providers.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace stepfuse::runtime {

namespace {

/// One product of the self-test, small enough for a plain triple loop and odd enough to reach every edge.
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

/// Small multiples of 1/8: exact in bf16, so that every type multiplies the same numbers.
class ProbeNumbers {
 public:
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(static_cast<int64_t>(state_ >> 33) % 33 - 16) / 8.0;
  }

 private:
  uint64_t state_ = 1;
};

/// Stores `values` as `dtype`, which holds each of them exactly.
std::vector<std::byte> encode(const std::vector<double>& values, ir::DType dtype) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(ir::dtype_bytes(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto narrow = static_cast<float>(values[i]);
    const auto bf16 = static_cast<uint16_t>(std::bit_cast<uint32_t>(narrow) >> 16);
    if (dtype == ir::DType::F64) std::memcpy(&bytes[i * 8], &values[i], 8);
    if (dtype == ir::DType::F32) std::memcpy(&bytes[i * 4], &narrow, 4);
    if (dtype == ir::DType::BF16) std::memcpy(&bytes[i * 2], &bf16, 2);
  }
  return bytes;
}

std::vector<double> decode(const std::vector<std::byte>& bytes, ir::DType dtype) {
  std::vector<double> values(bytes.size() / static_cast<size_t>(ir::dtype_bytes(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    float narrow = 0;
    if (dtype == ir::DType::F64) {
      std::memcpy(&values[i], &bytes[i * 8], 8);
    } else {
      std::memcpy(&narrow, &bytes[i * 4], 4);
      values[i] = narrow;
    }
  }
  return values;
}

/// A rows x columns matrix of probe numbers; a symmetric one when asked.
std::vector<double> probe_matrix(ProbeNumbers& numbers, int64_t rows, int64_t columns, bool symmetric) {
  std::vector<double> matrix(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const bool mirrored = symmetric && j < i;
      matrix[static_cast<size_t>(i * columns + j)] =
          mirrored ? matrix[static_cast<size_t>(j * columns + i)] : numbers.next();
    }
  }
  return matrix;
}

constexpr double kAlpha = 0.75, kBeta = -1.25;

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

/// The operands of a probe and its result, which is the same for every type.
struct ProbeCase {
  Probe probe;
  std::vector<double> a, b, c, want;
};

/// The plain triple loop, with the middle one over k so that it reads rows.
std::vector<double> triple_loop(const GemmShape& s, const ProbeCase& probe) {
  std::vector<double> d(probe.c.size());
  std::vector<double> right(static_cast<size_t>(s.k * s.n));  // op(B)
  for (int64_t p = 0; p < s.k; ++p)
    for (int64_t j = 0; j < s.n; ++j)
      right[static_cast<size_t>(p * s.n + j)] = probe.b[static_cast<size_t>(s.trans_b ? j * s.ldb + p : p * s.ldb + j)];
  for (int64_t i = 0; i < s.m; ++i) {
    double* row = &d[static_cast<size_t>(i * s.n)];
    for (int64_t p = 0; p < s.k; ++p) {
      const double x = probe.a[static_cast<size_t>(s.trans_a ? p * s.lda + i : i * s.lda + p)];
      for (int64_t j = 0; j < s.n; ++j) row[j] += x * right[static_cast<size_t>(p * s.n + j)];
    }
    for (int64_t j = 0; j < s.n; ++j) row[j] = kAlpha * row[j] + kBeta * probe.c[static_cast<size_t>(i * s.n + j)];
  }
  return d;
}

ProbeCase make_case(const Probe& probe) {
  const GemmShape shape = probe_shape(probe, ir::DType::F64);
  ProbeNumbers numbers;
  const bool square = probe.symmetric && probe.trans_a == probe.trans_b;  // A * A is symmetric only if A is
  ProbeCase made{probe, {}, {}, {}, {}};
  made.a = probe_matrix(numbers, shape.trans_a ? shape.k : shape.m, shape.lda, square);
  made.b = probe.symmetric ? made.a : probe_matrix(numbers, shape.trans_b ? shape.n : shape.k, shape.ldb, false);
  made.c = probe_matrix(numbers, shape.m, shape.n, probe.symmetric);
  made.want = triple_loop(shape, made);
  return made;
}

std::vector<ProbeCase> make_cases() {
  std::vector<ProbeCase> cases;
  for (const Probe& probe : kProbes) cases.push_back(make_case(probe));
  return cases;
}

/// The products are sums of at most 260 multiples of 1/64 below 4: exact in f32 whatever the order, so a right result
/// differs from the loop's by nothing but the roundings of alpha and beta.
Outcome compare(const GemmShape& shape, const std::vector<double>& got, const std::vector<double>& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    if (error <= 1e-5 * (1 + std::abs(want[i]))) continue;
    return fail(StatusCode::Failed, "self-test {} {}x{}x{}{}: element ({}, {}) is {} instead of {}",
                ir::dtype_name(shape.ab), shape.m, shape.n, shape.k, shape.symmetric ? " symmetric" : "",
                i / static_cast<size_t>(shape.n), i % static_cast<size_t>(shape.n), got[i], want[i]);
  }
  return {};
}

Outcome run_case(const GemmProvider& provider, const ProbeCase& test, ir::DType ab) {
  const GemmShape shape = probe_shape(test.probe, ab);
  STEPFUSE_ASSIGN(const std::unique_ptr<Gemm> gemm, provider.prepare(shape));
  if (gemm == nullptr)
    return fail(StatusCode::Failed, "no {} product of {}x{}x{}", ir::dtype_name(ab), shape.m, shape.n, shape.k);
  const auto a = encode(test.a, ab), b = encode(test.b, ab), c = encode(test.c, shape.c);
  std::vector<std::byte> d(c.size());
  const std::unique_ptr<std::byte[], void (*)(std::byte*)> scratch(
      new (std::align_val_t{64}) std::byte[gemm->scratch_bytes() + 1],
      [](std::byte* p) { ::operator delete[](p, std::align_val_t{64}); });
  const GemmArgs args{a.data(), shape.a_is_b ? a.data() : b.data(), c.data(), d.data(), kAlpha, kBeta};
  for (int piece = 0; piece < gemm->pieces(); ++piece) gemm->run(args, piece, scratch.get());
  return compare(shape, decode(d, shape.d), test.want);
}

Outcome run_cases(const GemmProvider& provider, const std::vector<ProbeCase>& cases, ir::DType ab) {
  for (const ProbeCase& test : cases) STEPFUSE_TRY(run_case(provider, test, ab));
  return {};
}

/// A provider with the types it must multiply rightly, or the reason why there is none.
struct Tested {
  std::unique_ptr<GemmProvider> provider;
  ProviderReport report;
};

Tested probe_provider(std::string_view name, Result<std::unique_ptr<GemmProvider>> made,
                      const std::vector<ProbeCase>& cases, std::initializer_list<ir::DType> dtypes) {
  if (!made) return {nullptr, {name, false, made.error().message}};
  for (const ir::DType dtype : dtypes) {
    if (const Outcome tested = run_cases(**made, cases, dtype); !tested)
      return {nullptr, {name, false, tested.error().message}};
  }
  return {std::move(*made), {name, true, {}}};
}

struct Providers {
  Tested fma_chain, openblas, onednn;
  std::vector<ProviderReport> reports;
};

const Providers& providers() {
  static const Providers all = [] {
    const CpuTarget host = host_cpu_target(read_cpuid());
    const std::vector<ProbeCase> cases = make_cases();
    Providers p;
    p.fma_chain = probe_provider("fma-chain", make_fma_chain_provider(host), cases, {ir::DType::F32, ir::DType::F64});
    p.openblas = probe_provider("openblas", make_openblas_provider(), cases, {ir::DType::F32, ir::DType::F64});
    p.onednn = probe_provider("onednn", make_onednn_provider(host), cases, {ir::DType::BF16});
    p.reports = {p.fma_chain.report, p.openblas.report, p.onednn.report};
    return p;
  }();
  return all;
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

const GemmProvider* GemmProviders::fma_chain() const { return providers().fma_chain.provider.get(); }

const GemmProvider* GemmProviders::f32() const {
  const auto& openblas = providers().openblas.provider;
  return openblas != nullptr ? openblas.get() : fma_chain();
}

const GemmProvider* GemmProviders::bf16() const { return providers().onednn.provider.get(); }

const std::vector<ProviderReport>& GemmProviders::reports() const { return providers().reports; }

}  // namespace stepfuse::runtime
