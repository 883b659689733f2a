// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm_providers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include <cblas.h>

// The serial OpenBLAS is built without locks: two threads that enter it at once can be handed the same packing buffer
// and then return wrong products (seen with 0.3.21, one product in a thousand on two cores). The link therefore wraps
// its buffer allocator (--wrap=blas_memory_alloc, --wrap=blas_memory_free): each thread keeps one buffer of its own,
// taken once under a lock.
extern "C" {
void* openblas_alloc(int position) __asm__("__real_blas_memory_alloc");
void openblas_free(void* buffer) __asm__("__real_blas_memory_free");
void* stepfuse_blas_alloc(int position) __asm__("__wrap_blas_memory_alloc");
void stepfuse_blas_free(void* buffer) __asm__("__wrap_blas_memory_free");
}

namespace {

std::mutex& buffer_mutex() {
  static std::mutex mutex;
  return mutex;
}

void* take_buffer(int position) {
  const std::lock_guard<std::mutex> lock(buffer_mutex());
  return openblas_alloc(position);
}

void give_back(void* buffer) {
  const std::lock_guard<std::mutex> lock(buffer_mutex());
  openblas_free(buffer);
}

struct ThreadBuffer {
  void* memory = nullptr;
  bool in_use = false;
  ~ThreadBuffer() {
    if (memory != nullptr) give_back(memory);
  }
};

thread_local ThreadBuffer thread_buffer;

}  // namespace

void* stepfuse_blas_alloc(int position) {
  if (thread_buffer.in_use) return take_buffer(position);
  if (thread_buffer.memory == nullptr) thread_buffer.memory = take_buffer(position);
  thread_buffer.in_use = true;
  return thread_buffer.memory;
}

void stepfuse_blas_free(void* buffer) {
  if (buffer != thread_buffer.memory) return give_back(buffer);
  thread_buffer.in_use = false;
}

namespace stepfuse::runtime {

namespace {

constexpr CBLAS_TRANSPOSE transposed(bool yes) { return yes ? CblasTrans : CblasNoTrans; }

// One name for both types. Every matrix is row-major.
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* d, int64_t ldd) {
  cblas_sgemm(CblasRowMajor, transposed(trans_a), transposed(trans_b), static_cast<blasint>(m), static_cast<blasint>(n),
              static_cast<blasint>(k), alpha, a, static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, d,
              static_cast<blasint>(ldd));
}
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda,
          const double* b, int64_t ldb, double beta, double* d, int64_t ldd) {
  cblas_dgemm(CblasRowMajor, transposed(trans_a), transposed(trans_b), static_cast<blasint>(m), static_cast<blasint>(n),
              static_cast<blasint>(k), alpha, a, static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, d,
              static_cast<blasint>(ldd));
}
void lower_syrk(bool trans, int64_t n, int64_t k, float alpha, const float* a, int64_t lda, float beta, float* d,
                int64_t ldd) {
  cblas_ssyrk(CblasRowMajor, CblasLower, transposed(trans), static_cast<blasint>(n), static_cast<blasint>(k), alpha, a,
              static_cast<blasint>(lda), beta, d, static_cast<blasint>(ldd));
}
void lower_syrk(bool trans, int64_t n, int64_t k, double alpha, const double* a, int64_t lda, double beta, double* d,
                int64_t ldd) {
  cblas_dsyrk(CblasRowMajor, CblasLower, transposed(trans), static_cast<blasint>(n), static_cast<blasint>(k), alpha, a,
              static_cast<blasint>(lda), beta, d, static_cast<blasint>(ldd));
}

template <class T>
constexpr const char* kGemmName = std::is_same_v<T, float> ? "openblas sgemm" : "openblas dgemm";
template <class T>
constexpr const char* kSyrkName = std::is_same_v<T, float> ? "openblas ssyrk" : "openblas dsyrk";

/// Parts of an extent: each long enough to pay for packing the other operand once more.
int part_count(int64_t extent, int64_t size) {
  return static_cast<int>(std::max<int64_t>(1, (extent + size - 1) / size));
}

constexpr int64_t kGranule = 16;

template <class T>
class OpenBlasGemm : public Gemm {
 public:
  explicit OpenBlasGemm(const GemmShape& shape) : shape_(shape) {}
  size_t scratch_bytes() const override { return 0; }

 protected:
  T alpha(const GemmArgs& args) const { return shape_.has_alpha ? static_cast<T>(args.alpha) : T{1}; }
  T beta(const GemmArgs& args) const { return shape_.has_c ? static_cast<T>(args.beta) : T{0}; }

  /// BLAS adds to its result in place.
  void copy_c(const GemmArgs& args, Range rows, Range columns) const {
    if (!shape_.has_c || shape_.c_is_d || columns.size() == 0) return;
    for (int64_t i = rows.begin; i < rows.end; ++i)
      std::memcpy(static_cast<T*>(args.d) + i * shape_.ldd + columns.begin,
                  static_cast<const T*>(args.c) + i * shape_.ldc + columns.begin,
                  static_cast<size_t>(columns.size()) * sizeof(T));
  }

  const GemmShape shape_;
};

/// Pieces are square tiles, so that both operands are packed again equally seldom.
template <class T>
class GeneralGemm final : public OpenBlasGemm<T> {
 public:
  explicit GeneralGemm(const GemmShape& shape)
      : OpenBlasGemm<T>(shape), row_parts_(part_count(shape.m, kTile)), column_parts_(part_count(shape.n, kTile)) {}

  int pieces() const override { return row_parts_ * column_parts_; }
  std::string_view implementation() const override { return kGemmName<T>; }

  void run(const GemmArgs& args, int piece, void*) const override {
    const GemmShape& s = this->shape_;
    const Range rows = split_range(s.m, piece / column_parts_, row_parts_, kGranule);
    const Range columns = split_range(s.n, piece % column_parts_, column_parts_, kGranule);
    if (rows.size() == 0 || columns.size() == 0) return;
    this->copy_c(args, rows, columns);
    const T* a = static_cast<const T*>(args.a) + rows.begin * (s.trans_a ? 1 : s.lda);
    const T* b = static_cast<const T*>(args.b) + columns.begin * (s.trans_b ? s.ldb : 1);
    T* d = static_cast<T*>(args.d) + rows.begin * s.ldd + columns.begin;
    gemm(s.trans_a, s.trans_b, rows.size(), columns.size(), s.k, this->alpha(args), a, s.lda, b, s.ldb,
         this->beta(args), d, s.ldd);
  }

 private:
  static constexpr int64_t kTile = 384;
  const int row_parts_, column_parts_;
};

/// X X^T or X^T X. Pieces are row panels of the lower triangle with equal areas; each mirrors itself into the upper
/// triangle, which nobody reads.
template <class T>
class SymmetricGemm final : public OpenBlasGemm<T> {
 public:
  explicit SymmetricGemm(const GemmShape& shape)
      : OpenBlasGemm<T>(shape),
        trans_(shape.trans_a && !shape.trans_b),  // A A and A^T A^T of a symmetric A count as A A^T
        pieces_(part_count(shape.n, kPanel)) {}

  int pieces() const override { return pieces_; }
  std::string_view implementation() const override { return kSyrkName<T>; }

  void run(const GemmArgs& args, int piece, void*) const override {
    const GemmShape& s = this->shape_;
    const Range rows{boundary(piece), boundary(piece + 1)};
    if (rows.size() == 0) return;
    this->copy_c(args, rows, {0, rows.end});
    const T* x = static_cast<const T*>(args.a);
    const T* left = x + rows.begin * (trans_ ? 1 : s.lda);
    T* d = static_cast<T*>(args.d) + rows.begin * s.ldd;
    if (rows.begin > 0)
      gemm(trans_, !trans_, rows.size(), rows.begin, s.k, this->alpha(args), left, s.lda, x, s.lda, this->beta(args), d,
           s.ldd);
    lower_syrk(trans_, rows.size(), s.k, this->alpha(args), left, s.lda, this->beta(args), d + rows.begin, s.ldd);
    mirror(static_cast<T*>(args.d), rows);
  }

 private:
  int64_t boundary(int piece) const {
    const auto extent = static_cast<double>(this->shape_.n);
    if (piece == pieces_) return this->shape_.n;
    const double row = extent * std::sqrt(static_cast<double>(piece) / pieces_);
    return static_cast<int64_t>(row) / kGranule * kGranule;
  }

  /// Blocks of 64 x 64 keep both the rows read and the rows written in the first-level cache.
  void mirror(T* d, Range rows) const {
    constexpr int64_t kBlock = 64;
    const int64_t ldd = this->shape_.ldd;
    for (int64_t i0 = rows.begin; i0 < rows.end; i0 += kBlock) {
      const int64_t i1 = std::min(i0 + kBlock, rows.end);
      for (int64_t j0 = 0; j0 < i1; j0 += kBlock) {
        for (int64_t j = j0; j < std::min(j0 + kBlock, i1); ++j)
          for (int64_t i = std::max(i0, j + 1); i < i1; ++i) d[j * ldd + i] = d[i * ldd + j];
      }
    }
  }

  static constexpr int64_t kPanel = 192;
  const bool trans_;
  const int pieces_;
};

template <class T>
std::unique_ptr<Gemm> make_gemm(const GemmShape& shape) {
  if (shape.symmetric && shape.a_is_b) return std::make_unique<SymmetricGemm<T>>(shape);
  return std::make_unique<GeneralGemm<T>>(shape);
}

class OpenBlasProvider final : public GemmProvider {
 public:
  std::string_view name() const override { return "openblas"; }

  Result<std::unique_ptr<Gemm>> prepare(const GemmShape& shape) const override {
    STEPFUSE_TRY(check_gemm_shape(shape));
    if (shape.d != shape.ab || (shape.has_c && shape.c != shape.ab)) return nullptr;
    for (const int64_t extent : {shape.m, shape.n, shape.k, shape.lda, shape.ldb, shape.ldd})
      if (extent > std::numeric_limits<blasint>::max()) return nullptr;
    if (shape.ab == ir::DType::F32) return make_gemm<float>(shape);
    if (shape.ab == ir::DType::F64) return make_gemm<double>(shape);
    return nullptr;
  }
};

}  // namespace

// The first use of the variable registers its destructor, which allocates.
void prepare_thread_for_openblas() { thread_buffer.in_use = false; }

Result<std::unique_ptr<GemmProvider>> make_openblas_provider() { return std::make_unique<OpenBlasProvider>(); }

}  // namespace stepfuse::runtime
