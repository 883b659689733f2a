// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/lapack.h"
#include "runtime/cpu/library_call.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace stepfuse::runtime {

namespace {

/// Arrays one behind the other in the scratch of a thread, each at a cache line.
class ScratchLayout {
 public:
  template <class T>
  size_t add(int64_t count) {
    const size_t at = bytes_;
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlignment = 64;
  size_t bytes_ = 0;
};

template <class T>
T* array_at(void* scratch, size_t offset) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(scratch) + offset);
}

/// What LAPACK answered to a question for a size, which a float may hold rounded down.
template <class T>
int64_t asked_size(T answer) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(answer) * (1 + std::numeric_limits<T>::epsilon())));
}

/// LAPACK counts the elements of its work arrays in 32 bits.
Outcome check_countable(const codegen::LoweredCall& call, const std::string& label, int64_t elements) {
  if (elements <= std::numeric_limits<LapackInt>::max()) return {};
  return with_hint(fail(StatusCode::Unsupported, "{}: {} of {} x {} is too large for LAPACK with 32-bit integers",
                        label, ir::op_info(call.op).mnemonic, call.source.dims[1], call.source.dims[2]),
                   "give this parameter to another recipe, or split it");
}

/// What the three decompositions share.
template <class T>
class LapackCall : public LibraryCall {
 public:
  explicit LapackCall(const codegen::LoweredCall& call)
      : rows_(static_cast<LapackInt>(call.source.dims[1])),
        cols_(static_cast<LapackInt>(call.source.dims[2])),
        shorter_(std::min(rows_, cols_)),
        result_rows_(call.target.dims[1]),
        result_cols_(call.target.dims[2]) {}

  size_t scratch_bytes() const override { return layout_.bytes(); }

 protected:
  /// The first `cols` columns, column-major; the largest magnitude, or NaN if any element is not finite.
  T copy_in(const MatrixView& source, LapackInt cols, T* to) const {
    const T* from = reinterpret_cast<const T*>(source.data);
    T largest = 0;
    bool finite = true;
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < rows_; ++i) {
        const T value = from[i * source.row_stride + j * source.col_stride];
        to[j * rows_ + i] = value;
        finite = finite && std::isfinite(value);
        largest = std::max(largest, std::abs(value));
      }
    return finite ? largest : std::numeric_limits<T>::quiet_NaN();
  }

  static T& element(const MatrixView& target, int64_t i, int64_t j) {
    return reinterpret_cast<T*>(target.data)[i * target.row_stride + j * target.col_stride];
  }

  void fill_nan(const MatrixView& target) const {
    for (int64_t i = 0; i < result_rows_; ++i)
      for (int64_t j = 0; j < result_cols_; ++j) element(target, i, j) = std::numeric_limits<T>::quiet_NaN();
  }

  const LapackInt rows_, cols_, shorter_;
  const int64_t result_rows_, result_cols_;
  ScratchLayout layout_;
};

template <class T>
class EighCall final : public LapackCall<T> {
 public:
  explicit EighCall(const codegen::LoweredCall& call) : LapackCall<T>(call) {
    const int64_t n = this->rows_;
    T best = 0;
    LapackInt best_iwork = 0;
    lapack_syevd(this->rows_, &best, &best, &best, -1, &best_iwork, -1);
    work_size_ = static_cast<LapackInt>(std::max(needed_work(n), asked_size(best)));
    iwork_size_ = static_cast<LapackInt>(std::max<int64_t>(3 + 5 * n, best_iwork));
    a_ = this->layout_.template add<T>(n * n);
    values_ = this->layout_.template add<T>(n);
    work_ = this->layout_.template add<T>(work_size_);
    iwork_ = this->layout_.template add<LapackInt>(iwork_size_);
  }

  static int64_t needed_work(int64_t n) { return 1 + 6 * n + 2 * n * n; }

  std::string_view implementation() const override {
    return std::is_same_v<T, float> ? "openblas ssyevd" : "openblas dsyevd";
  }

  void run(const MatrixView& source, const MatrixView&, const MatrixView& target, void* scratch) const override {
    T* a = array_at<T>(scratch, a_);
    T* values = array_at<T>(scratch, values_);
    const bool finite = std::isfinite(this->copy_in(source, this->cols_, a));
    if (!finite || lapack_syevd(this->rows_, a, values, array_at<T>(scratch, work_), work_size_,
                                array_at<LapackInt>(scratch, iwork_), iwork_size_) != 0)
      return this->fill_nan(target);
    const int64_t n = this->rows_;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < n; ++i) this->element(target, i, j) = a[j * n + i];
      this->element(target, n, j) = values[j];
    }
  }

 private:
  LapackInt work_size_, iwork_size_;
  size_t a_, values_, work_, iwork_;
};

template <class T>
class SvdCall final : public LapackCall<T> {
 public:
  explicit SvdCall(const codegen::LoweredCall& call) : LapackCall<T>(call) {
    const int64_t rows = this->rows_, cols = this->cols_, k = this->shorter_;
    T best = 0;
    LapackInt iwork = 0;
    lapack_gesdd(this->rows_, this->cols_, &best, &best, &best, &best, &best, -1, &iwork);
    work_size_ = static_cast<LapackInt>(std::max(needed_work(rows, cols), asked_size(best)));
    a_ = this->layout_.template add<T>(rows * cols);
    u_ = this->layout_.template add<T>(rows * k);
    values_ = this->layout_.template add<T>(k);
    vt_ = this->layout_.template add<T>(k * cols);
    work_ = this->layout_.template add<T>(work_size_);
    iwork_ = this->layout_.template add<LapackInt>(8 * k);
  }

  /// The larger of what LAPACK's versions document.
  static int64_t needed_work(int64_t rows, int64_t cols) {
    const int64_t k = std::min(rows, cols);
    return std::max(4 * k * k + 7 * k, 3 * k + std::max(std::max(rows, cols), 4 * k * k + 4 * k));
  }

  std::string_view implementation() const override {
    return std::is_same_v<T, float> ? "openblas sgesdd" : "openblas dgesdd";
  }

  void run(const MatrixView& source, const MatrixView&, const MatrixView& target, void* scratch) const override {
    T* a = array_at<T>(scratch, a_);
    T* u = array_at<T>(scratch, u_);
    T* values = array_at<T>(scratch, values_);
    T* vt = array_at<T>(scratch, vt_);
    const bool finite = std::isfinite(this->copy_in(source, this->cols_, a));
    if (!finite || lapack_gesdd(this->rows_, this->cols_, a, values, u, vt, array_at<T>(scratch, work_), work_size_,
                                array_at<LapackInt>(scratch, iwork_)) != 0)
      return this->fill_nan(target);
    const int64_t rows = this->rows_, cols = this->cols_, k = this->shorter_;
    for (int64_t j = 0; j < k; ++j) {
      for (int64_t i = 0; i < rows; ++i) this->element(target, i, j) = u[j * rows + i];
      this->element(target, rows, j) = values[j];
      for (int64_t i = 0; i < cols; ++i) this->element(target, rows + 1 + i, j) = vt[i * k + j];
    }
  }

 private:
  LapackInt work_size_;
  size_t a_, u_, values_, vt_, work_, iwork_;
};

template <class T>
class QrCall final : public LapackCall<T> {
 public:
  explicit QrCall(const codegen::LoweredCall& call) : LapackCall<T>(call) {
    const int64_t k = this->shorter_;
    T best_geqrf = 0, best_orgqr = 0, none = 0;
    lapack_geqrf(this->rows_, this->shorter_, &none, &none, &best_geqrf, -1);
    lapack_orgqr(this->rows_, this->shorter_, &none, &none, &best_orgqr, -1);
    work_size_ = static_cast<LapackInt>(std::max({k, asked_size(best_geqrf), asked_size(best_orgqr)}));
    a_ = this->layout_.template add<T>(this->rows_ * k);
    tau_ = this->layout_.template add<T>(k);
    work_ = this->layout_.template add<T>(work_size_);
  }

  std::string_view implementation() const override {
    return std::is_same_v<T, float> ? "openblas sgeqrf" : "openblas dgeqrf";
  }

  void run(const MatrixView& source, const MatrixView&, const MatrixView& target, void* scratch) const override {
    T* a = array_at<T>(scratch, a_);
    T* tau = array_at<T>(scratch, tau_);
    T* work = array_at<T>(scratch, work_);
    // Columns beyond the shorter side have no part in Q, but make it NaN where they are not finite.
    const T largest = this->copy_in(source, this->shorter_, a);
    if (!std::isfinite(largest) || !rest_is_finite(source)) return this->fill_nan(target);
    scale(a, largest);
    if (lapack_geqrf(this->rows_, this->shorter_, a, tau, work, work_size_) != 0 ||
        lapack_orgqr(this->rows_, this->shorter_, a, tau, work, work_size_) != 0)
      return this->fill_nan(target);
    for (int64_t j = 0; j < this->shorter_; ++j)
      for (int64_t i = 0; i < this->rows_; ++i) this->element(target, i, j) = a[j * this->rows_ + i];
  }

 private:
  bool rest_is_finite(const MatrixView& source) const {
    for (int64_t j = this->shorter_; j < this->cols_; ++j)
      for (int64_t i = 0; i < this->rows_; ++i)
        if (!std::isfinite(this->element(source, i, j))) return false;
    return true;
  }

  /// A power of two changes no bit of Q, and keeps the lengths of columns within range.
  void scale(T* a, T largest) const {
    int exponent = 0;
    std::frexp(largest, &exponent);
    if (std::abs(exponent) < std::numeric_limits<T>::max_exponent / 4) return;
    for (int64_t i = 0; i < int64_t{this->rows_} * this->shorter_; ++i) a[i] = std::ldexp(a[i], -exponent);
  }

  LapackInt work_size_;
  size_t a_, tau_, work_;
};

template <template <class> class Call>
std::unique_ptr<LibraryCall> of_type(const codegen::LoweredCall& call) {
  if (call.dtype == ir::DType::F64) return std::make_unique<Call<double>>(call);
  return std::make_unique<Call<float>>(call);
}

}  // namespace

Result<std::unique_ptr<LibraryCall>> make_lapack_call(const codegen::LoweredCall& call, const std::string& label) {
  const int64_t rows = call.source.dims[1], cols = call.source.dims[2];
  STEPFUSE_TRY(check_countable(call, label, std::max(rows, cols)));
  if (call.op == ir::Op::Eigh) {
    STEPFUSE_TRY(check_countable(call, label, EighCall<double>::needed_work(rows)));
    return of_type<EighCall>(call);
  }
  if (call.op == ir::Op::Svd) {
    STEPFUSE_TRY(check_countable(call, label, SvdCall<double>::needed_work(rows, cols)));
    return of_type<SvdCall>(call);
  }
  if (call.op == ir::Op::Qr) return of_type<QrCall>(call);
  return nullptr;
}

}  // namespace stepfuse::runtime
