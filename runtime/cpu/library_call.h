// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/lower_group.h"
#include "compiler/explain.h"
#include "ir/support/status.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace stepfuse::runtime {

/// A matrix where it lies; strides in elements.
struct MatrixView {
  std::byte* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;
};

/// One library op on matrices of one size, prepared: run() may be called by several threads at once on different
/// matrices and allocates nothing of ours. The result depends on the arguments alone.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  /// `keys` is looked at by sortcols only. `scratch` has scratch_bytes() bytes, 64-byte aligned, private to the calling
  /// thread.
  virtual void run(const MatrixView& source, const MatrixView& keys, const MatrixView& target, void* scratch) const = 0;
  virtual size_t scratch_bytes() const = 0;
  /// Shown in the plan, e.g. "openblas ssyevd".
  virtual std::string_view implementation() const = 0;
};

/// Null for sortcols. Matrices that are too large for the library's integers are refused; `label` names the result.
Result<std::unique_ptr<LibraryCall>> make_lapack_call(const codegen::LoweredCall& call, const std::string& label);

/// Chooses who computes and says so in the notes.
Result<std::unique_ptr<LibraryCall>> prepare_library_call(const codegen::LoweredCall& call, const std::string& label,
                                                          compiler::BackendNotes& notes);

}  // namespace stepfuse::runtime
