// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/cuda/values.h"

namespace stepfuse::codegen {

/// The lines of a kernel's reductions, on their way from lanes to results.
class CudaReductions {
 public:
  CudaReductions(KernelText& text, CudaValues& values) : t_(text), values_(values) {}

  /// NAME_lanes, at +0.
  void declare_lanes();
  /// The current element joins lane `lane` of the thread, if `condition` (empty: always).
  void accumulate(const std::string& lane, const std::string& condition);
  /// const double NAME = the sum of the lanes.
  void fold();
  /// The function that finishes sums and stores results; stands above the kernel.
  std::string store_results_text();
  /// "store_results(row, at, NAME, ...)"
  void store_results(std::string_view at);
  void store_partials(std::string_view at);
  /// const double NAME = the sum of `parts` partials from index `first`, by a fold function of helpers.h.
  void fold_partials(std::string_view first);

 private:
  std::string combine(const Reduction& reduction, bool of_partials);
  KernelText& t_;
  CudaValues& values_;
};

}  // namespace stepfuse::codegen
