// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/library_call.h"

#include "runtime/element.h"

#include <algorithm>
#include <cmath>

namespace stepfuse::runtime {

namespace {

/// Whether a column with this key comes before another; NaN first, equal keys by place.
struct Before {
  const double* keys;
  bool operator()(int64_t i, int64_t j) const {
    const bool nan_i = std::isnan(keys[i]), nan_j = std::isnan(keys[j]);
    if (nan_i != nan_j) return nan_i;
    if (!nan_i && keys[i] != keys[j]) return keys[i] > keys[j];
    return i < j;
  }
};

class SortColumns final : public LibraryCall {
 public:
  explicit SortColumns(const codegen::LoweredCall& call)
      : rows_(call.source.dims[1]), cols_(call.source.dims[2]), dtype_(call.dtype), keys_dtype_(call.keys_dtype) {}

  size_t scratch_bytes() const override { return static_cast<size_t>(cols_) * (sizeof(double) + sizeof(int64_t)); }
  std::string_view implementation() const override { return "stepfuse sort"; }

  void run(const MatrixView& source, const MatrixView& keys, const MatrixView& target, void* scratch) const override {
    auto* const values = static_cast<double*>(scratch);
    auto* const order = reinterpret_cast<int64_t*>(values + cols_);
    for (int64_t j = 0; j < cols_; ++j) {
      values[j] = load_element(keys.data, keys_dtype_, j * keys.col_stride);
      order[j] = j;
    }
    std::sort(order, order + cols_, Before{values});
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < cols_; ++j)
        store_element(target.data, dtype_, i * target.row_stride + j * target.col_stride,
                      load_element(source.data, dtype_, i * source.row_stride + order[j] * source.col_stride));
  }

 private:
  const int64_t rows_, cols_;
  const ir::DType dtype_, keys_dtype_;
};

}  // namespace

Result<std::unique_ptr<LibraryCall>> prepare_library_call(const codegen::LoweredCall& call, const std::string& label,
                                                          compiler::BackendNotes& notes) {
  STEPFUSE_ASSIGN(std::unique_ptr<LibraryCall> library, make_lapack_call(call, label));
  if (library == nullptr) library = std::make_unique<SortColumns>(call);
  notes.push_back({"library",
                   label,
                   true,
                   fmt::format("{} of {} x {} by {}", ir::op_info(call.op).mnemonic, call.source.dims[1],
                               call.source.dims[2], library->implementation()),
                   {},
                   {}});
  return library;
}

}  // namespace stepfuse::runtime
