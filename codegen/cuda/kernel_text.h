// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/code_writer.h"
#include "codegen/cuda/helpers.h"
#include "codegen/cuda/level.h"
#include "codegen/cuda/names.h"
#include "codegen/cuda/types.h"

namespace stepfuse::codegen {

/// One kernel's text while it is written: what everything that writes it needs to know.
struct KernelText {
  KernelText(const KernelSpec& kernel, const CudaVariant& which)
      : spec(kernel), variant(which), geometry(cuda_geometry(kernel, which)), names(kernel) {}

  const KernelSpec& spec;
  CudaVariant variant;
  CudaGeometry geometry;
  CudaNames names;
  CudaHelpers helpers;
  CodeWriter out;

  bool strided() const { return !cuda_contiguous(spec); }
  bool reduces() const { return !spec.reductions.empty(); }
  bool vectors() const { return geometry.vector > 1; }
  /// Whether a thread loads all its vectors before it computes. Otherwise it finishes one after the other.
  bool staged() const { return spec.scheme != Scheme::Cols && !cuda_walks_rows(spec); }
  /// Elements from one of a thread's vectors to its next.
  unsigned spacing() const {
    return spec.scheme == Scheme::Cols ? kCudaBlockThreads / static_cast<unsigned>(kCudaColumns)
                                       : geometry.elements_per_step();
  }
  bool loops_over_batch() const { return geometry.batch > 1; }
  Arithmetic arithmetic(ir::DType math) const { return {math, spec.mode}; }

  /// #pragma unroll, and the head of a loop.
  template <class... Args>
  void open_unrolled(fmt::format_string<Args...> format, Args&&... args) {
    out.directive("#pragma unroll");
    out.open(format, std::forward<Args>(args)...);
  }
};

}  // namespace stepfuse::codegen
