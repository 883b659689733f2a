// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codegen/kernel.h"

namespace stepfuse::codegen {

/// How often a thread has a value: once per chunk (Cols: per column of a chunk), once per run of neighbours, or at
/// every element.
enum class CudaLevel : uint8_t { Chunk, Run, Element };

inline bool cuda_contiguous(const KernelSpec& spec) { return spec.scheme == Scheme::Linear && spec.contiguous; }

/// Strided elements of d1 x d2 in row-major order: a chunk spans rows, so each run finds the row it is in.
inline bool cuda_walks_rows(const KernelSpec& spec) { return spec.scheme == Scheme::Linear && !spec.contiguous; }

inline CudaLevel cuda_level(const KernelSpec& spec, const Varies& varies) {
  if (spec.scheme == Scheme::Cols) return varies[1] ? CudaLevel::Element : CudaLevel::Chunk;
  if (varies[2] || (cuda_contiguous(spec) && varies[1])) return CudaLevel::Element;
  return cuda_walks_rows(spec) && varies[1] ? CudaLevel::Run : CudaLevel::Chunk;
}

}  // namespace stepfuse::codegen
