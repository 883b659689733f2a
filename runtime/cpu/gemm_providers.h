// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cpu/cpu_features.h"
#include "runtime/cpu/gemm.h"

#include <algorithm>
#include <cstdint>
#include <memory>

namespace stepfuse::runtime {

/// Each fails with the reason when this machine cannot run it; none is tested yet (see GemmProviders).
Result<std::unique_ptr<GemmProvider>> make_fma_chain_provider(const CpuTarget& host);
Result<std::unique_ptr<GemmProvider>> make_openblas_provider();
Result<std::unique_ptr<GemmProvider>> make_onednn_provider(const CpuTarget& host);

/// Does now what OpenBLAS's first product on this thread would otherwise allocate for.
void prepare_thread_for_openblas();

/// Refuses extents and strides that no matrix has, and flags that contradict them.
Outcome check_gemm_shape(const GemmShape& shape);

/// Runs products of several shapes against a triple loop in f64; the error says which one is wrong and by how much.
Outcome self_test(const GemmProvider& provider, ir::DType ab);

/// A range of rows or columns of D.
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// Part `index` of `parts` nearly equal ones of [0, extent), each a multiple of `granule` but the last.
inline Range split_range(int64_t extent, int index, int parts, int64_t granule) {
  const int64_t granules = (extent + granule - 1) / granule;
  return {std::min(extent, granules * index / parts * granule),
          std::min(extent, granules * (index + 1) / parts * granule)};
}

}  // namespace stepfuse::runtime
