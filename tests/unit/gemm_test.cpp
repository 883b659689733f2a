// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm.h"

#include "runtime/cpu/gemm_providers.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using ir::DType;
using Bytes = std::vector<std::byte>;

// --- Storage formats, written from their definitions and not as the kernels do it.

double decode_one(const std::byte* p, DType dtype) {
  switch (dtype) {
    case DType::F64: {
      double x;
      std::memcpy(&x, p, 8);
      return x;
    }
    case DType::F32: {
      float x;
      std::memcpy(&x, p, 4);
      return x;
    }
    case DType::F16: {
      _Float16 x;
      std::memcpy(&x, p, 2);
      return static_cast<double>(x);
    }
    case DType::BF16: {
      uint16_t bits;
      std::memcpy(&bits, p, 2);
      return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
    case DType::Bool:
      break;
  }
  return 0;
}

/// Nearest bf16, ties to even, by comparing the distances to both neighbours.
uint16_t nearest_bf16(float x) {
  const auto below = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);  // towards zero
  if (std::isnan(x)) return static_cast<uint16_t>(below | 0x40);
  if (std::isinf(x)) return below;
  const auto above = static_cast<uint16_t>(below + 1);
  const auto value = [](uint16_t bits) {  // 2^128 stands for infinity, as rounding sees it
    const bool infinite = (bits & 0x7fff) == 0x7f80;
    const double magnitude = infinite ? 0x1p128 : std::bit_cast<float>(static_cast<uint32_t>(bits & 0x7fff) << 16);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  };
  const double to_below = std::abs(x - value(below)), to_above = std::abs(value(above) - x);
  if (to_below != to_above) return to_below < to_above ? below : above;
  return (below & 1) == 0 ? below : above;
}

/// `x` is of the math type already; one rounding to `dtype`.
template <class T>
void encode_one(T x, DType dtype, std::byte* p) {
  const auto narrow = static_cast<float>(x);
  const auto half = static_cast<_Float16>(narrow);
  const auto wide = static_cast<double>(x);
  const uint16_t bf16 = nearest_bf16(narrow);
  if (dtype == DType::F64) std::memcpy(p, &wide, 8);
  if (dtype == DType::F32) std::memcpy(p, &narrow, 4);
  if (dtype == DType::F16) std::memcpy(p, &half, 2);
  if (dtype == DType::BF16) std::memcpy(p, &bf16, 2);
}

size_t bytes_of(DType dtype) { return static_cast<size_t>(ir::dtype_bytes(dtype)); }

/// A matrix with rows `stride` elements apart.
struct Matrix {
  DType dtype;
  int64_t rows, stride;
  Bytes data;

  Matrix(DType type, int64_t r, int64_t s)
      : dtype(type), rows(r), stride(s), data(static_cast<size_t>(r * s) * bytes_of(type) + 1) {}
  std::byte* at(int64_t i, int64_t j) { return &data[static_cast<size_t>(i * stride + j) * bytes_of(dtype)]; }
  const std::byte* at(int64_t i, int64_t j) const { return const_cast<Matrix*>(this)->at(i, j); }
  double get(int64_t i, int64_t j) const { return decode_one(at(i, j), dtype); }
};

Matrix gaussian(DType dtype, int64_t rows, int64_t stride, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Matrix matrix(dtype, rows, stride);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < stride; ++j) encode_one(normal(generator), dtype, matrix.at(i, j));
  return matrix;
}

/// What D holds before a product.
Matrix untouched(DType dtype, int64_t rows, int64_t stride) {
  Matrix matrix(dtype, rows, stride);
  std::fill(matrix.data.begin(), matrix.data.end(), std::byte{0x5a});
  return matrix;
}

// --- Running a product.

struct Spec {
  int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  bool alpha = false, c = false, in_place = false, symmetric = false;
  DType ab = DType::F32, c_type = DType::F32, d_type = DType::F32;
  int64_t gap = 0;  // elements between rows
};

GemmShape shape_of(const Spec& s) {
  GemmShape shape;
  shape.m = s.m;
  shape.n = s.n;
  shape.k = s.k;
  shape.trans_a = s.trans_a;
  shape.trans_b = s.trans_b;
  shape.lda = (s.trans_a ? s.m : s.k) + s.gap;
  shape.ldb = (s.trans_b ? s.k : s.n) + s.gap;
  shape.ldd = s.n + s.gap;
  shape.ldc = s.in_place ? shape.ldd : s.n + 2 * s.gap;
  shape.ab = s.ab;
  shape.c = s.c_type;
  shape.d = s.d_type;
  shape.has_c = s.c;
  shape.has_alpha = s.alpha;
  shape.symmetric = shape.a_is_b = s.symmetric;
  shape.c_is_d = s.in_place;
  return shape;
}

std::string describe(const Spec& s) {
  return fmt::format("{}x{}x{} {}{} {}->{} C {} alpha {} c {} in place {} symmetric {} gap {}", s.m, s.n, s.k,
                     s.trans_a ? 'T' : 'N', s.trans_b ? 'T' : 'N', ir::dtype_name(s.ab), ir::dtype_name(s.d_type),
                     ir::dtype_name(s.c_type), s.alpha, s.c, s.in_place, s.symmetric, s.gap);
}

constexpr double kAlpha = 0.7, kBeta = -1.3;  // neither is exact in f32

struct Operands {
  Matrix a, b, c;
};

Operands make_operands(const Spec& s) {
  const GemmShape g = shape_of(s);
  Operands o{gaussian(s.ab, s.trans_a ? s.k : s.m, g.lda, 1), gaussian(s.ab, s.trans_b ? s.n : s.k, g.ldb, 2),
             gaussian(s.c_type, s.m, g.ldc, 3)};
  if (!s.symmetric) return o;
  for (int64_t i = 0; i < s.m; ++i)  // C, and A where only its own symmetry makes A A symmetric
    for (int64_t j = 0; j < i; ++j) {
      std::memcpy(o.c.at(i, j), o.c.at(j, i), bytes_of(s.c_type));
      if (s.trans_a == s.trans_b) std::memcpy(o.a.at(i, j), o.a.at(j, i), bytes_of(s.ab));
    }
  o.b = o.a;
  return o;
}

struct AlignedScratch {
  explicit AlignedScratch(size_t bytes) : memory(bytes + 64) {}
  void* get() {
    void* p = memory.data();
    size_t space = memory.size();
    return std::align(64, memory.size() - 64, p, space);
  }
  Bytes memory;
};

Matrix run(const Gemm& gemm, const Spec& s, const Operands& o, int threads = 1, bool reversed = false) {
  Matrix d = s.in_place ? o.c : untouched(s.d_type, s.m, shape_of(s).ldd);
  const GemmArgs args{o.a.data.data(),
                      s.symmetric ? o.a.data.data() : o.b.data.data(),
                      s.c ? (s.in_place ? d.data.data() : o.c.data.data()) : nullptr,
                      d.data.data(),
                      kAlpha,
                      kBeta};
  std::atomic<int> next{0};
  const auto work = [&] {
    AlignedScratch scratch(gemm.scratch_bytes());
    for (int i = next++; i < gemm.pieces(); i = next++)
      gemm.run(args, reversed ? gemm.pieces() - 1 - i : i, scratch.get());
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return d;
}

// --- References.

/// op(X) as plain numbers: `lines` vectors of length k.
template <class T>
std::vector<std::vector<T>> lines_of(const Matrix& x, int64_t lines, int64_t k, bool lines_are_rows) {
  std::vector<std::vector<T>> out(static_cast<size_t>(lines));
  for (int64_t i = 0; i < lines; ++i)
    for (int64_t p = 0; p < k; ++p)
      out[static_cast<size_t>(i)].push_back(static_cast<T>(lines_are_rows ? x.get(i, p) : x.get(p, i)));
  return out;
}

/// The definition of a strict product, element by element.
template <class T>
Matrix scalar_chain(const Spec& s, const Operands& o) {
  Matrix d = s.in_place ? o.c : untouched(s.d_type, s.m, shape_of(s).ldd);
  const auto rows = lines_of<T>(o.a, s.m, s.k, !s.trans_a), columns = lines_of<T>(o.b, s.n, s.k, s.trans_b);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      const auto &row = rows[static_cast<size_t>(i)], &column = columns[static_cast<size_t>(j)];
      T r = 0;
      for (size_t p = 0; p < row.size(); ++p) r = std::fma(row[p], column[p], r);
      if (s.alpha) r = static_cast<T>(kAlpha) * r;
      if (s.c) r = std::fma(static_cast<T>(kBeta), static_cast<T>(o.c.get(i, j)), r);
      encode_one(r, s.d_type, d.at(i, j));
    }
  }
  return d;
}

/// The largest error, relative to the sum of the absolute values of what is added.
double worst_error(const Spec& s, const Operands& o, const Matrix& d) {
  const auto rows = lines_of<double>(o.a, s.m, s.k, !s.trans_a), columns = lines_of<double>(o.b, s.n, s.k, s.trans_b);
  double worst = 0;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      const auto &row = rows[static_cast<size_t>(i)], &column = columns[static_cast<size_t>(j)];
      double sum = 0, size = 0;
      for (size_t p = 0; p < row.size(); ++p) {
        sum += row[p] * column[p];
        size += std::abs(row[p] * column[p]);
      }
      const double addend = s.c ? kBeta * o.c.get(i, j) : 0;
      const double want = (s.alpha ? kAlpha : 1.0) * sum + addend;
      worst = std::max(worst, std::abs(d.get(i, j) - want) / (size + std::abs(addend) + 1e-30));
    }
  }
  return worst;
}

std::unique_ptr<GemmProvider> fma_chain_with(bool avx512) {
  CpuTarget host = host_cpu_target(read_cpuid());
  if (avx512 && !host.avx512) return nullptr;
  host.avx512 = avx512;
  auto made = make_fma_chain_provider(host);
  return made ? std::move(*made) : nullptr;
}

std::unique_ptr<Gemm> prepare(const GemmProvider& provider, const Spec& s) {
  auto gemm = provider.prepare(shape_of(s));
  EXPECT_TRUE(gemm.has_value()) << gemm.error().message;
  return gemm ? std::move(*gemm) : nullptr;
}

// --- Strict.

class StrictProduct : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    provider_ = fma_chain_with(GetParam());
    if (provider_ == nullptr) GTEST_SKIP() << "this CPU lacks " << (GetParam() ? "AVX-512" : "AVX2, FMA or F16C");
  }
  std::unique_ptr<GemmProvider> provider_;
};
INSTANTIATE_TEST_SUITE_P(Isa, StrictProduct, testing::Bool(),
                         [](const auto& p) { return std::string(p.param ? "Avx512" : "Avx2"); });

TEST_P(StrictProduct, IsTheScalarChainBitForBit) {
  const DType f64 = DType::F64, f32 = DType::F32, f16 = DType::F16, bf16 = DType::BF16;
  const Spec specs[] = {
      {1, 1, 1},
      {5, 7, 3, true, false, true, true},
      {12, 32, 17},
      {13, 33, 0, false, false, true, true},
      {31, 65, 300, false, true, true, false, false, false, f32, f32, f32, 3},
      {200, 400, 20, true, true, true, true},
      {193, 385, 30, false, false, true, true, true},
      {25, 40, 513, true, false, true, true},
      {20, 50, 600, true, false, true, true, false, false, bf16, bf16, bf16},
      {40, 50, 60, false, true, true, true, false, false, bf16, f32, f32, 1},
      {33, 47, 29, false, false, true, true, true, false, bf16, bf16, bf16, 5},
      {29, 71, 41, true, true, true, true, false, false, f16, f16, f16},
      {29, 71, 41, true, true, true, true, false, false, f32, f16, bf16},
      {29, 30, 41, false, true, true, true, false, false, f32, bf16, f64},
      {14, 19, 23, false, true, true, true, false, false, f64, f64, f64, 2},
      {200, 35, 270, true, false, true, true, false, false, f64, f32, f64},
      {25, 35, 45, true, true, true, true, false, false, f64, f64, f32},
      {64, 64, 96, false, true, false, false, false, true},
  };
  for (const Spec& s : specs) {
    SCOPED_TRACE(describe(s));
    const auto gemm = prepare(*provider_, s);
    ASSERT_NE(gemm, nullptr);
    const Operands operands = make_operands(s);
    const Matrix want = s.ab == f64 ? scalar_chain<double>(s, operands) : scalar_chain<float>(s, operands);
    EXPECT_EQ(run(*gemm, s, operands).data, want.data);
  }
}

TEST_P(StrictProduct, TallIsTheTransposedWide) {
  const Spec tall{310, 70, 130, false, false}, wide{70, 310, 130, true, true};  // (A B)^T = B^T A^T
  Operands operands = make_operands(tall);
  const Matrix d = run(*prepare(*provider_, tall), tall, operands);
  std::swap(operands.a, operands.b);
  const Matrix t = run(*prepare(*provider_, wide), wide, operands);
  for (int64_t i = 0; i < tall.m; ++i)
    for (int64_t j = 0; j < tall.n; ++j) ASSERT_EQ(std::memcmp(d.at(i, j), t.at(j, i), 4), 0) << i << ", " << j;
}

TEST_P(StrictProduct, KeepsSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float values[] = {0.0f,     -0.0f, inf,       -inf,      nan,           1e-40f,          -1e-45f,
                          1e-38f,   1.0f,  0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, 0x1.fffffep127f, 65519.9f,
                          65520.0f, 1e-8f, 0x1p-25f,  0x1.8p-25f};
  for (const DType d_type : {DType::F32, DType::BF16, DType::F16}) {
    Spec s{std::size(values), 3, 1};
    s.d_type = d_type;
    SCOPED_TRACE(describe(s));
    Operands operands = make_operands(s);
    for (size_t i = 0; i < std::size(values); ++i)
      encode_one(values[i], DType::F32, operands.a.at(static_cast<int64_t>(i), 0));
    encode_one(1.0f, DType::F32, operands.b.at(0, 0));
    encode_one(-1.0f, DType::F32, operands.b.at(0, 1));
    encode_one(0.5f, DType::F32, operands.b.at(0, 2));
    const Matrix got = run(*prepare(*provider_, s), s, operands), want = scalar_chain<float>(s, operands);
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        SCOPED_TRACE(fmt::format("{} column {}", values[i], j));
        if (std::isnan(want.get(i, j))) {
          EXPECT_TRUE(std::isnan(got.get(i, j)));
        } else {
          EXPECT_EQ(std::memcmp(got.at(i, j), want.at(i, j), bytes_of(d_type)), 0)
              << got.get(i, j) << " instead of " << want.get(i, j);
        }
      }
    }
  }
}

TEST_P(StrictProduct, NoTypesNoProduct) {
  for (const auto& [ab, c, d] : {std::tuple{DType::F64, DType::F64, DType::BF16},
                                 {DType::F32, DType::F64, DType::F32},
                                 {DType::Bool, DType::F32, DType::F32}}) {
    Spec s{4, 4, 4, false, false, true, true};
    s.ab = ab;
    s.c_type = c;
    s.d_type = d;
    EXPECT_EQ(prepare(*provider_, s), nullptr) << describe(s);
  }
}

TEST(Gemm, StrictIsRefusedByNameWithoutFma) {
  CpuTarget target = host_cpu_target(read_cpuid());
  target.fma = target.avx512 = false;
  const auto made = make_fma_chain_provider(target);
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().message.find("lacks FMA"), std::string::npos) << made.error().message;
}

TEST(Gemm, ImpossibleShapesAreErrors) {
  const GemmProvider* provider = GemmProviders::get().library(DType::F32);
  ASSERT_NE(provider, nullptr);
  GemmShape negative = shape_of({4, 4, 4}), narrow = negative, oblong = shape_of({4, 5, 4});
  negative.m = -1;
  narrow.ldb = 3;
  oblong.symmetric = true;
  for (const GemmShape& shape : {negative, narrow, oblong}) EXPECT_FALSE(provider->prepare(shape).has_value());
}

// --- Every provider.

struct Library {
  const GemmProvider* provider;
  DType ab;
  std::vector<DType> results;
};

std::vector<Library> libraries() {
  const GemmProviders& all = GemmProviders::get();
  std::vector<Library> found;
  if (all.fma_chain() != nullptr) found.push_back({all.fma_chain(), DType::F32, {DType::F32, DType::BF16}});
  if (all.library(DType::F32) != nullptr) found.push_back({all.library(DType::F32), DType::F32, {DType::F32}});
  if (all.library(DType::F64) != nullptr) found.push_back({all.library(DType::F64), DType::F64, {DType::F64}});
  if (all.library(DType::BF16) != nullptr)
    found.push_back({all.library(DType::BF16), DType::BF16, {DType::BF16, DType::F32}});
  return found;
}

double tolerance(DType ab, DType d) {
  if (d == DType::BF16) return 0x1p-8;
  return ab == DType::F64 ? 1e-14 : 2e-6;
}

const Spec kSpecs[] = {
    {1, 1, 1},
    {5, 7, 3, true, false, true, true},
    {64, 48, 32, false, true, true, true},
    {67, 129, 65, false, true, true, true, true},
    {130, 33, 70, true, true, false, false},
    {300, 200, 260, false, false, true, true},
    {400, 130, 40, true, false, true, true, true},
    {40, 800, 60, false, false, true, false},
    {520, 60, 30, false, true, false, true},
    {7, 7, 5, false, true, true, true, false, true},
    {67, 67, 65, false, true, true, true, true, true},
    {130, 130, 300, true, false, true, true, false, true},
    {210, 210, 210, false, false, true, true, false, true},
    {450, 450, 33, false, true, false, false, false, true},
    {230, 230, 230, true, true, true, true, true, true},
};

/// Calls visit(gemm, spec, provider name) for every provider, result type and entry of the table.
template <class Visit>
void for_each_product(Visit visit) {
  for (const Library& library : libraries()) {
    for (const DType d_type : library.results) {
      for (Spec s : kSpecs) {
        s.ab = library.ab;
        s.c_type = s.d_type = d_type;
        SCOPED_TRACE(std::string(library.provider->name()) + " " + describe(s));
        const auto gemm = prepare(*library.provider, s);
        ASSERT_NE(gemm, nullptr);
        visit(*gemm, s);
      }
    }
  }
}

TEST(Gemm, AgreesWithTheDoubleLoop) {
  for_each_product([](const Gemm& gemm, const Spec& s) {
    const Operands operands = make_operands(s);
    EXPECT_LE(worst_error(s, operands, run(gemm, s, operands)), tolerance(s.ab, s.d_type)) << gemm.implementation();
  });
}

TEST(Gemm, SymmetricResultsAreExactlySymmetric) {
  for_each_product([](const Gemm& gemm, const Spec& s) {
    if (!s.symmetric) return;
    const Matrix d = run(gemm, s, make_operands(s));
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < i; ++j) ASSERT_EQ(d.get(i, j), d.get(j, i)) << i << ", " << j;
  });
}

TEST(Gemm, PiecesInAnyOrderOnAnyThreads) {
  for_each_product([](const Gemm& gemm, const Spec& s) {
    const Operands operands = make_operands(s);
    const Matrix once = run(gemm, s, operands);
    EXPECT_EQ(run(gemm, s, operands, 1, true).data, once.data) << "pieces in reverse order";
    EXPECT_EQ(run(gemm, s, operands, 4).data, once.data) << "four threads";
  });
}

TEST(Gemm, GapsBetweenRowsStayUntouched) {
  for (const Library& library : libraries()) {
    Spec s{70, 90, 50, true, false, true, true, false, false, library.ab, library.results[0], library.results[0], 3};
    const auto gemm = prepare(*library.provider, s);
    if (gemm == nullptr) continue;  // a provider may refuse gaps
    const Matrix d = run(*gemm, s, make_operands(s)), before = untouched(s.d_type, s.m, shape_of(s).ldd);
    for (int64_t i = 0; i < s.m; ++i)
      EXPECT_EQ(std::memcmp(d.at(i, s.n), before.at(i, s.n), static_cast<size_t>(s.gap) * bytes_of(s.d_type)), 0);
  }
}

/// A product that one thread runs again and again without allocating.
struct Repeated {
  Repeated(const GemmProvider& provider, const Spec& s)
      : spec(s), gemm(prepare(provider, s)), operands(make_operands(s)), want(run(*gemm, s, operands)) {}

  bool goes_wrong(Matrix& d, void* scratch) const {
    const GemmArgs args{operands.a.data.data(), operands.b.data.data(), nullptr, d.data.data(), 1, 0};
    for (int i = 0; i < gemm->pieces(); ++i) gemm->run(args, i, scratch);
    return std::memcmp(d.data.data(), want.data.data(), want.data.size()) != 0;
  }

  Spec spec;
  std::unique_ptr<Gemm> gemm;
  Operands operands;
  Matrix want;
};

/// Different products at once, many times over: the libraries' buffers must not be shared between threads.
TEST(Gemm, ConcurrentProductsDoNotDisturbEachOther) {
  for (const Library& library : libraries()) {
    SCOPED_TRACE(library.provider->name());
    std::vector<Repeated> products;
    for (Spec s : {Spec{128, 128, 80, false, true}, Spec{140, 100, 90}, Spec{96, 160, 100, false, true}}) {
      s.ab = library.ab;
      s.d_type = s.c_type = library.results[0];
      products.emplace_back(*library.provider, s);
    }
    std::atomic<int> wrong{0};
    const auto hammer = [&](unsigned seed) {
      std::mt19937 generator(seed);
      AlignedScratch scratch(8 << 20);
      std::vector<Matrix> results;
      for (const Repeated& product : products) results.push_back(product.want);
      for (int i = 0; i < 6000; ++i) {
        const size_t which = generator() % products.size();
        if (products[which].goes_wrong(results[which], scratch.get())) ++wrong;
      }
    };
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) threads.emplace_back(hammer, t);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

/// A product with one wrong element in its last row.
class SpoiltGemm final : public Gemm {
 public:
  SpoiltGemm(std::unique_ptr<Gemm> inner, const GemmShape& shape) : inner_(std::move(inner)), shape_(shape) {}
  int pieces() const override { return inner_->pieces(); }
  size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  std::string_view implementation() const override { return "spoilt"; }
  void run(const GemmArgs& args, int piece, void* scratch) const override {
    inner_->run(args, piece, scratch);
    if (shape_.m == 300 && piece == pieces() - 1) static_cast<float*>(args.d)[299 * shape_.ldd + 150] += 0.5f;
  }

 private:
  std::unique_ptr<Gemm> inner_;
  GemmShape shape_;
};

class SpoiltProvider final : public GemmProvider {
 public:
  std::string_view name() const override { return "spoilt"; }
  Result<std::unique_ptr<Gemm>> prepare(const GemmShape& shape) const override {
    STEPFUSE_ASSIGN(auto inner, GemmProviders::get().library(DType::F32)->prepare(shape));
    return std::make_unique<SpoiltGemm>(std::move(inner), shape);
  }
};

TEST(Gemm, SelfTestFindsOneWrongElement) {
  ASSERT_NE(GemmProviders::get().library(DType::F32), nullptr);
  EXPECT_TRUE(self_test(*GemmProviders::get().library(DType::F32), DType::F32).has_value());
  const Outcome outcome = self_test(SpoiltProvider(), DType::F32);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_NE(outcome.error().message.find("300x200x260: row 299 is wrong"), std::string::npos)
      << outcome.error().message;
}

TEST(Gemm, ReportsSayWhyAProviderIsMissing) {
  const auto reports = GemmProviders::get().reports();
  ASSERT_EQ(reports.size(), 3u);
  for (const ProviderReport& report : reports) {
    EXPECT_EQ(report.usable, report.why.empty()) << report.name;
    RecordProperty(std::string(report.name), report.usable ? "usable" : report.why);
  }
}

}  // namespace
}  // namespace stepfuse::runtime
